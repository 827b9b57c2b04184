#!/usr/bin/env bats
# A Redis server over TLS: which servers dlock trusts, and which clients the server accepts.

# Creates the certificates once: two authorities, and the certificates that they have signed.
setup_file() {
  load support
  load certificates
  cd "$BATS_FILE_TMPDIR" || return
  authority ours
  authority theirs
  signed server ours 'DNS:localhost,IP:127.0.0.1'
  signed elsewhere ours 'DNS:elsewhere.example'
  signed unknown theirs 'DNS:localhost,IP:127.0.0.1'
  signed client ours 'DNS:client.example'
  signed over ours 'DNS:localhost,IP:127.0.0.1' -startdate 20200101000000Z -enddate 20200201000000Z
}

setup() {
  load support
  load certificates
  load ../faults/redis
  choose_redis_port
  unset SSL_CERT_FILE SSL_CERT_DIR
}

# Starts a server with this certificate and makes it the store.
use_tls_server() {  # <certificate> [<option of the server>...]
  local certificates=$BATS_FILE_TMPDIR
  use_redis_store --port 0 --tls-port "$redis_port" --tls-cert-file "$certificates/$1.crt" \
    --tls-key-file "$certificates/$1.key" --tls-ca-cert-file "$certificates/ours.crt" \
    --tls-auth-clients no "${@:2}"
  export DLOCK_STORE=rediss://127.0.0.1:$redis_port
  export DLOCK_TLS_CA=$certificates/ours.crt
  note_logins
}

# Asserts that dlock did not trust the server, said why, and did not log in.
assert_not_trusted() {  # <why>
  assert_message 77 "$1"
  assert_nobody_logged_in
}

note_logins() { logins=$(calls_of auth); }

# calls_of itself logs in once.
assert_nobody_logged_in() { assert_equal "$(calls_of auth)" "$((logins + 1))"; }

# Asserts that a run with the client's certificate and this key gets its lock.
assert_works_with_key() {  # <key> [<option>...]
  run timeout 60 dlock --tls-cert "$BATS_FILE_TMPDIR/client.crt" --tls-key "$1" "${@:2}" \
    run job -- echo started < /dev/null
  assert_equal "$status $output" '0 started'
}

# Asserts that these options are refused with the name of the file and the reason, within a
# moment, on a terminal too.
assert_refused_file() {  # <file> <why> <option>...
  run bash -o pipefail -c 'timeout 60 script -qec "$1" /dev/null < /dev/null | tr -d "\r"' - \
    "$(printf '%q ' dlock "${@:3}" run job -- echo started)"
  assert_message 78 "$1: $2"
}

# As on distributions that keep their certificates where OpenSSL does not look.
use_foreign_certificates() {  # <file below /etc/ssl>
  use_private_mounts
  inside mount -t tmpfs none /usr/lib/ssl
  inside mount -t tmpfs none /etc/ssl
  inside mkdir -p "$(dirname "/etc/ssl/$1")"
  inside cp "$BATS_FILE_TMPDIR/ours.crt" "/etc/ssl/$1"
  unset DLOCK_TLS_CA
}

@test "the system's authorities are found where other distributions keep them, unless SSL_CERT_FILE replaces them" {
  use_tls_server server
  for file in certs/ca-certificates.crt cert.pem ca-bundle.pem; do
    use_foreign_certificates "$file"

    run inside dlock run job -- echo started

    assert_equal "$file $status $output" "$file 0 started"
  done

  # An empty one is ignored.
  SSL_CERT_FILE='' run inside dlock run job -- echo started

  assert_equal "$status $output" '0 started'

  note_logins
  SSL_CERT_FILE=$BATS_FILE_TMPDIR/theirs.crt run inside dlock run job -- echo started

  assert_not_trusted 'certificate not trusted'
}

@test "a server with a certificate of another authority or name, or an expired or self-signed one, is not trusted" {
  local certificate why
  use_tls_server server
  while read -r certificate why; do
    redis CONFIG SET tls-cert-file "$BATS_FILE_TMPDIR/$certificate.crt" tls-key-file "$BATS_FILE_TMPDIR/$certificate.key"
    note_logins
    echo "with the certificate $certificate:"
    run dlock run job -- echo started
    assert_not_trusted "$why"
  done << 'END'
over expired
theirs certificate not trusted
unknown certificate not trusted
elsewhere 127.0.0.1
END

  run dlock --tls-name elsewhere.example run job -- echo started
  assert_equal "$status $output" '0 started'
  run dlock --tls-insecure run job -- echo started
  assert_status 0
  assert_output_contains started
  assert_output_contains 'warning'
}

@test "a pass phrase is read from a file of one line, and appears in no output" {
  use_tls_server server --tls-auth-clients yes
  cd "$BATS_TEST_TMPDIR" || return
  local client=$BATS_FILE_TMPDIR/client form file key why refused=0
  umask 077
  echo 'open sesame' > phrase
  quietly openssl pkey -in "$client.key" -aes256 -passout file:phrase -out client.key
  mkfifo unfed
  printf '' > empty
  printf 'open sesame\nand more\n' > two
  mkdir folder
  head -c 2000 /dev/zero | tr '\0' x > long
  printf 'open sesame ' > blank

  for form in 'open sesame' 'open sesame\r\n' 'open sesame\n\n' '\xef\xbb\xbfopen sesame\n'; do
    # shellcheck disable=SC2059
    printf "$form" > form
    assert_works_with_key client.key --tls-key-password-file form
  done
  quietly openssl req -new -newkey rsa:2048 -nodes -subj /CN=rsa -keyout rsa.key -out rsa.csr
  quietly openssl x509 -req -in rsa.csr -CA "$BATS_FILE_TMPDIR/ours.crt" -CAkey "$BATS_FILE_TMPDIR/ours.key" -days 2 -out rsa.crt
  quietly openssl rsa -in rsa.key -traditional -aes256 -passout file:phrase -out old-form.key
  quietly openssl pkey -in rsa.key -aes256 -passout file:phrase -out new-form.key
  for key in old-form.key new-form.key; do
    assert_works_with_key "$key" --tls-cert rsa.crt --tls-key-password-file phrase
  done
  assert_works_with_key client.key --tls-key-password-file <(cat phrase)
  run dlock --tls-cert "$client.crt" --tls-key client.key --tls-key-password-file <(cat phrase) \
    run job --also other --also third -- echo started
  assert_equal "$status $output" '0 started'

  while read -r file why; do
    assert_refused_file "$PWD/$file" "$why" --tls-cert "$client.crt" --tls-key client.key --tls-key-password-file "$file"
    [[ $output != *sesame* ]]
    refused=$((refused + 1))
  done <<< 'empty
two
folder
unfed'
  for file in long blank; do
    assert_refused_file "$PWD/client.key" 'the pass phrase in the file of --tls-key-password-file is not that of the key' \
      --tls-cert "$client.crt" --tls-key client.key --tls-key-password-file "$file"
  done
  assert_equal "$refused" 4
}

@test "a key with a pass phrase is used with the file that has it, by an inner run as well, and refused otherwise" {
  use_tls_server server --tls-auth-clients yes
  cd "$BATS_TEST_TMPDIR" || return
  local client=$BATS_FILE_TMPDIR/client
  (umask 077 && echo 'open sesame' > phrase && echo wrong > other)
  quietly openssl pkey -in "$client.key" -aes256 -passout file:phrase -out pkcs8.key
  quietly openssl ec -in "$client.key" -aes128 -passout file:phrase -out sec1.key

  local key
  for key in pkcs8.key sec1.key; do
    assert_works_with_key "$key" --tls-key-password-file phrase
    DLOCK_TLS_KEY_PASSWORD_FILE=phrase assert_works_with_key "$key"
    assert_refused_file "$PWD/$key" 'it has a pass phrase: use --tls-key-password-file' \
      --tls-cert "$client.crt" --tls-key "$key"
    assert_refused_file "$PWD/$key" 'the pass phrase in the file of --tls-key-password-file is not that of the key' \
      --tls-cert "$client.crt" --tls-key "$key" --tls-key-password-file other
  done
  quietly openssl pkcs8 -provider legacy -provider default -topk8 -v1 PBE-MD5-DES -in "$client.key" \
    -passout file:phrase -out old.key
  assert_refused_file "$PWD/old.key" 'it is encrypted with a cipher that is too old: encrypt it again with openssl pkcs8 -topk8' \
    --tls-cert "$client.crt" --tls-key old.key --tls-key-password-file phrase
  run dlock --tls-key-password-file phrase run job -- echo started
  assert_equal "$status $output" '78 dlock: job: --tls-key-password-file needs --tls-cert and --tls-key'
  assert_works_with_key "$client.key" --tls-key-password-file phrase
  assert_refused_file "$PWD/none" 'No such file or directory' \
    --tls-cert "$client.crt" --tls-key pkcs8.key --tls-key-password-file none

  quietly openssl pkey -in "$BATS_FILE_TMPDIR/client.key" -aes256 -passout file:phrase -out client.key

  run dlock --tls-cert "$BATS_FILE_TMPDIR/client.crt" --tls-key client.key --tls-key-password-file phrase \
    run job -- sh -c 'cd / && exec dlock run other -- echo started'

  assert_equal "$status $output" '0 started'
}

@test "certificates and keys work in the forms that platforms hand out" {
  use_tls_server server --tls-auth-clients yes
  cd "$BATS_TEST_TMPDIR" || return
  local client=$BATS_FILE_TMPDIR/client ours=$BATS_FILE_TMPDIR/ours.crt
  quietly openssl ec -in "$client.key" -out sec1.key
  sed 's/$/\r/' "$client.key" > crlf.key
  { echo 'Bag Attributes'; echo '    friendlyName: x'; cat "$client.key"; } > text.key
  { cat "$client.crt" "$ours"; } > chain.crt
  sed 's/$/\r/' "$ours" > crlf-ca.crt
  { printf '\xef\xbb\xbf'; cat "$ours"; } > bom-ca.crt
  { cat "$BATS_FILE_TMPDIR/theirs.crt"; echo 'Our authority:'; cat "$ours"; } > several-ca.crt

  local file
  for file in sec1.key crlf.key text.key; do assert_works_with_key "$file"; done
  assert_works_with_key "$client.key" --tls-cert chain.crt
  for file in crlf-ca.crt bom-ca.crt several-ca.crt; do assert_works_with_key "$client.key" --tls-ca "$file"; done
}

@test "a file that is not a certificate or the key of it is refused with what it is" {
  use_tls_server server
  cd "$BATS_TEST_TMPDIR" || return
  local client=$BATS_FILE_TMPDIR/client
  : > empty
  mkdir directory
  quietly openssl x509 -in "$client.crt" -outform der -out der
  echo hello > text

  local file
  while IFS='|' read -r file why; do
    assert_refused_file "$PWD/$file" "$why" --tls-ca "$file"
    assert_refused_file "$PWD/$file" "$why" --tls-cert "$file" --tls-key "$client.key"
    assert_refused_file "$PWD/$file" "$why" --tls-cert "$client.crt" --tls-key "$file"
  done << 'END'
empty|the file is empty
directory|it is a directory, not a file
der|it is in DER or PKCS #12 format, not PEM
text|it is not in PEM format (no -----BEGIN line)
missing|No such file or directory
END
  assert_refused_file "$BATS_FILE_TMPDIR/unknown.key" "it is not the key of the certificate $client.crt" \
    --tls-cert "$client.crt" --tls-key "$BATS_FILE_TMPDIR/unknown.key"
}

@test "a server that requires client certificates accepts a client with one, from pipes as well, and refuses others" {
  use_tls_server server --tls-auth-clients yes

  run dlock --tls-cert "$BATS_FILE_TMPDIR/client.crt" --tls-key "$BATS_FILE_TMPDIR/client.key" \
    run job -- echo started

  assert_equal "$status $output" '0 started'

  cd "$BATS_FILE_TMPDIR"

  run dlock --tls-ca <(cat ours.crt) --tls-cert <(cat client.crt) --tls-key <(cat client.key) \
    run job -- echo started

  assert_equal "$status $output" '0 started'

  run dlock run job -- echo started

  [[ $status == @(69|77) ]]
  assert_one_line
  refute_output_contains started
}

@test "a client that uses TLS where the server does not, or the reverse, ends with 69 and says so" {
  use_tls_server server

  run timeout 60 dlock --store "redis://127.0.0.1:$redis_port" run job -- echo started

  assert_message 69 '; does it require TLS (rediss://)?'

  stop_redis
  start_redis --port "$redis_port"
  note_logins

  run timeout 60 dlock run job -- echo started

  assert_message 69 'in the TLS handshake; does it use TLS?'
  assert_nobody_logged_in
}

# --- Files ---

@test "a private key that every user can read is refused, or used with a warning if that cannot be changed" {
  use_private_mounts
  use_tls_server server --tls-auth-clients yes
  cp "$BATS_FILE_TMPDIR"/client.{crt,key} "$(from_outside /mnt)"
  login=(--tls-cert /mnt/client.crt --tls-key /mnt/client.key)
  inside chmod 0640 /mnt/client.key
  run inside dlock "${login[@]}" run job -- echo started
  assert_equal "$status $output" '0 started'

  inside chmod 0644 /mnt/client.key
  run inside dlock "${login[@]}" run job -- echo started
  assert_status 77
  assert_output_contains 'cannot use the key /mnt/client.key: every user of this machine can read it (chmod o-r'

  inside mount -o remount,ro /mnt
  run inside dlock "${login[@]}" run job -- echo started
  assert_equal "$status $output" \
    $'0 dlock: warning: every user of this machine can read /mnt/client.key (--tls-key): mount it with mode 0440 or 0400\nstarted'
}

@test "a run holds its lock on a server whose certificate is for its name and from a trusted authority" {
  use_tls_server server
  run dlock run job -- sh -c "dlock status --json job | jq -r .state"
  assert_equal "$status $output" '0 held'
  run dlock --store "rediss://localhost:$redis_port" run job -- echo started
  assert_equal "$status $output" '0 started'
  note_logins
  DLOCK_TLS_NAME=db.example.org run dlock run job -- echo started
  assert_not_trusted 'certificate not trusted'

  # Without --tls-ca, the system's authorities or those of SSL_CERT_FILE are trusted.
  unset DLOCK_TLS_CA
  note_logins
  run dlock run job -- echo started
  assert_not_trusted 'certificate not trusted'
  mkfifo "$BATS_TEST_TMPDIR/fifo"
  note_logins
  run env SSL_CERT_FILE="$BATS_TEST_TMPDIR/fifo" timeout 60 dlock run job -- echo started
  assert_not_trusted 'certificate not trusted'
  SSL_CERT_FILE=$BATS_FILE_TMPDIR/ours.crt run dlock run job -- echo started
  assert_equal "$status $output" '0 started'
}

@test "a file of certificates that never ends is refused" {
  use_tls_server server
  mkfifo "$BATS_TEST_TMPDIR/fifo"
  for file in "$BATS_TEST_TMPDIR/fifo" /dev/zero; do
    run timeout 60 dlock --tls-ca "$file" run job -- echo started
    assert_message 78 "cannot use the CA file $file: "
  done
}
