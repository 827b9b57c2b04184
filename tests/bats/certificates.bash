# Helpers for tests that need certificates.

# Creates a certificate authority in the current directory: NAME.crt, NAME.key.
authority() {  # <name>
  quietly openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
    -subj "/CN=$1" -addext basicConstraints=critical,CA:TRUE \
    -addext keyUsage=critical,keyCertSign,cRLSign -keyout "$1.key" -out "$1.crt"
  mkdir "$1"
  : > "$1/index"
}

# Creates NAME.crt, signed by the authority, and NAME.key.
signed() {  # <name> <authority> <alternative names> [<option of openssl-ca>...]
  quietly openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" \
    -keyout "$1.key" -out "$1.csr"
  cat > "$1.conf" << END
[ca]
default_ca = own
[own]
database = $2/index
new_certs_dir = $2
rand_serial = yes
default_md = sha256
default_days = 2
policy = any
unique_subject = no
x509_extensions = names
[any]
commonName = supplied
[names]
subjectAltName = $3
END
  quietly openssl ca -batch -notext -config "$1.conf" -cert "$2.crt" -keyfile "$2.key" \
    -in "$1.csr" -out "$1.crt" "${@:4}"
}

# Writes a pass phrase to the second file, and the key of the first, encrypted with it, to the third.
encrypted() {  # <key> <file of the pass phrase> <encrypted key>
  (umask 077 && echo 'open sesame' > "$2")
  openssl pkey -in "$1" -aes256 -passout "file:$2" -out "$3"
}

quietly() { "$@" > log 2>&1 || { cat log >&2; return 1; }; }
