# shellcheck shell=bash
# Helpers for golden.bats: what varies from run to run is masked, and the rest is compared with
# the files in golden/. They need support.bash.

# In microseconds of the wall clock and nanoseconds of boot time; times of the test are later.
read -r uptime _ < /proc/uptime
golden_began=${EPOCHREALTIME/[.,]/}
golden_boot=${uptime/./}0000000
# Where fences begin: ahead of the clock, so that they count up from here and no time is taken
# for a fence.
golden_fence=$((golden_began + 7200000000))
golden_pids= # "<pid>=<name> ..."
golden_now=  # of what is shown, in microseconds of the wall clock; without it, of when it is masked

# Gives a pid a name, by which it is shown from now on.
call_pid() { golden_pids+="$2=$1 "; }  # <name> <pid>

# Masks what varies in the lines of the standard input, and in a file with a record of the embedded
# store (`bytes`), of which the size, the format and the value that is in force are shown. A time
# after now is shown with the seconds from now, rounded up to hundreds. With `sorted`, the lines are
# sorted after that. Different tokens, leases and hashes are numbered.
# shellcheck disable=SC2016
masked() {  # [sorted|table|columns|etcd|bytes]...
  perl -e '
    use strict; use Time::HiRes;
    my ($began, $boot, $fence, $pids, $root, $host, $seen, %how) = (@ARGV[0 .. 6], map { $_ => 1 } @ARGV[7 .. $#ARGV]);
    my %names = map { split /=/, $_, 2 } split " ", $pids;
    my $user = getpwuid($>) // $>;
    local $/ = undef;
    $_ = <STDIN>;
    # Only now, because what is read may be of a moment ago.
    my $now = int(Time::HiRes::time() * 1e6);
    my $now_boot = Time::HiRes::clock_gettime(7) * 1e9;  # CLOCK_BOOTTIME
    if ($seen) {
      $now_boot -= ($now - $seen) * 1e3;
      $now = $seen;
    }

    sub later { my ($seconds) = @_; $seconds <= 0 ? "" : "+" . 100 * int(($seconds + 99.999) / 100) . "s" }
    sub wall {  # in microseconds, the unit as text
      my ($at, $unit) = @_;
      return "<fence+" . ($at - $fence) . ">" if $at >= $fence && $at < $fence + 10_000 && $unit eq "us";
      return undef if $at < $began - 10e6 || $at > $now + 40 * 86_400e6;
      return "<$unit" . later(($at - $now) / 1e6) . ">";
    }
    sub boottime {
      my ($at) = @_;
      return undef if $at < $boot - 10e9 || $at > $now_boot + 3600e9;
      # A text, or its beginning after its length.
      return undef if $at % 2**16 == 0 || $at % 2**32 < 2**16 || pack("Q<", $at) =~ /[a-z]{4}| <&|<&3/;
      # The end of a time of the wall clock, and the duration behind it.
      return undef if pack("Q<", $at) =~ /^.\x06\0\x01/s;
      # Leases of these tests that end later do so after one of these times.
      return undef if $at > $now_boot && !grep { abs(($at - $now_boot) / 1e9 - $_ + 50) <= 50 } 100, 600, 3600;
      return "<boot" . later(($at - $now_boot) / 1e9) . ">";
    }

    if ($how{bytes}) {
      printf "%d bytes, format %s\n", length $_, substr $_, 0, 7;
      my ($size, $half) = unpack "x40LL", $_;
      $_ = substr $_, 48 + $half * (length($_) - 48) / 2, $size;
      my ($ns) = readlink("/proc/self/ns/pid") =~ /(\d+)/;
      my $ends = quotemeta(pack("Q<L<L<", $ns, $>, length $host) . $host);
      my $where = quotemeta(pack("L<", length $host) . $host);
      my @out;
      my $plain = "";
      my $show = sub {
        if ($plain ne "") {
          # Text after its length, and other bytes in hexadecimal.
          $plain =~ s/([^ -~]|\\)/sprintf "\\%02x", ord $1/ges;
          push @out, $plain;
          $plain = "";
        }
        push @out, @_;
      };
      my $number = 0;
      pos($_) = 0;
      while (pos($_) < length $_) {
        if (/\G(.{16})(.{8})(.{4})$ends/gcs) {
          my ($token, $session, $pid) = ($1, unpack("Q<", $2), unpack("l<", $3));
          $show->(sprintf "<party token %s session %s pid %s>", $token =~ /[^\0]/ ? "set" : "0",
            $session ? "set" : 0, $pid ? $names{$pid} // "unknown" : 0);
        } elsif (/\G$where/gcs) {
          $show->("<host>");
        } elsif (/\G.{4}(broken by )\Q$user\E\@\Q$host\E/gcs) {
          $show->("<$1user\@host>");
        } else {
          my $long = length($_) - pos($_) >= 8 ? unpack("Q<", substr $_, pos($_), 8) : 0;
          # The first second of 2026, a time of these tests: its end could be one since boot.
          if (abs($long - 1767225600e6) < 3600e6) {
            $plain .= substr $_, pos($_), 8;
            pos($_) += 8;
            next;
          }
          my $short = length($_) - pos($_) >= 4 ? unpack("l<", substr $_, pos($_), 4) : 0;
          # A small number before another one is no time.
          my $shown = $long % 2**32 < 64 ? undef : wall($long, "us") // boottime($long);
          if (defined $shown) {
            $show->($shown);
            pos($_) += 8;
            # The token of a turn is between the moments of turns and its own.
            if ($shown eq "<boot>" && /\G(?=.{16}(.{8}))/gcs && boottime(unpack "Q<", $1) && !boottime(unpack "Q<", substr $_, pos($_), 8)) {
              $show->("<token>");
              pos($_) += 16;
            }
            # The duration of a run follows its end.
            $show->("\\01", "<duration>") if @out > 2 && $shown eq "<us>" && $out[-2] eq "\\01" && $out[-3] eq "<us>" && /\G\x01.{8}/gcs;
          } elsif ($names{$short} && $plain =~ /(?:^|[\0-\x0f]\0\0\0)\z/) {
            $show->("<pid $names{$short}>");
            pos($_) += 4;
          } else {
            $plain .= substr $_, pos($_)++, 1;
          }
        }
      }
      $show->();
      # The first of what begins a holder, a waiter or a run begins a line.
      print map { (/^<(?:party|fence)/ ? "\n  " : " ") . $_ } @out;
      print "\n";
      exit;
    }

    s/\Q$root\E/<dir>/g;
    s/(?<=127\.0\.0\.1:)\d+/<port>/g;
    s{/\w+(?:/\w+)*/dlock-postgres\.\w+/sockets}{<sockets>}g;
    s/(?<=<sockets>&port=)\d+/<port>/g;
    s/(?<=\.s\.PGSQL\.)\d+/<port>/g;
    s/"\Q$host\E"/"<host>"/g;
    s/\b\Q$user\E\@\Q$host\E(?![\w.-])/<user>\@<host>/g;
    s/"(user|taken_by|\w+_user)":"\Q$user\E"/"$1":"<user>"/g;
    s/"uid":$>\b/"uid":<uid>/g;
    s/"(taken_on)":"\Q$host\E"/"$1":"<host>"/g;
    s/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/"<time" . ($1 ? ".ms" : "") . ">"/ge;
    s/("on_behalf_of":)\d+/$1<pid>/g;
    s/("\w*pid":|\bpid )(\d+)/$1 . "<" . ($names{$2} || "pid") . ">"/ge;
    s/(<user>\@<host> +)(\d+)(?= )/$1 . "<" . ($names{$2} || "pid") . ">"/ge if $how{table};
    s/(_duration_seconds_sum\{.*\}) [\d.]+/$1 <s>/g;
    s/"((?:held|waiting|duration|age|waited|ran|round_trip|command_boot)_ms)":\d+/"$1":<ms>/g;
    s{"((?:expires|retry)_in_ms|fresh_for_ms)":(\d+)}{"\"$1\":" . ($2 ? "<ms" . later($2 / 1e3) . ">" : 0)}ge;
    s{(?<![\w.])(\d{16})(?!\w)}{wall($1, "us") // $1}ge;
    s{(?<![\w.])(\d{13})(?!\w)}{wall($1 * 1e3, "ms") // $1}ge;
    s{(?<![\w.])(\d{10})(\.\d+)?(?!\w)}{wall($1 * 1e6, "s") // $1 . ($2 // "")}ge;
    s/(_seconds\{.*\}) \d[\d.]*$/$1 <seconds>/gm;
    # On a busy machine, runs take seconds.
    s/(_duration_seconds_bucket\{.*le="(?:0\.1|1|10)"\}) \d+$/$1 <runs>/gm;
    s/\b(took|for|after) (?:\d[\d.]*(?:ms|[smhd]))+/$1 <span>/g;
    s/(?<=\bon )\Q$host\E(?![\w-])|(?<=\()\Q$host\E(?=, pid)/<host>/g;
    s/\b([0-9a-f]{32} )(\d+) \Q$host\E(?![\w-])/"$1<" . ($names{$2} || "pid") . "> <host>"/ge;
    if ($how{etcd}) {
      s/("fence":)[1-9]\d*/$1<fence>/g;
      s/(<user>\@<host> +\S+ +\S+ +)\d+ */$1<fence>  /g;
    }
    s/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/<boot id>/g;
    my $period = int($now / 1e11);
    s/(?<![\w.])(?:$period|${\($period - 1)})(?![\w.])/<period>/g if $how{sorted};
    if ($how{table} || $how{columns}) {
      s/ {2,}/  /g;
      s/ +$//gm;
    }
    if ($how{table}) {
      s/(?<![\w.\/-])(?:[\d.]+(?:ms|[smhd]))+(?![\w-])/<span>/g;
      s/(?<![<\w-])\Q$host\E(?![>\w-])/<host>/g;
      s/(?<![<\w-])\Q$user\E(?![>\w-])/<user>/g;
    }
    my %ids;
    my $id = qr{(?<![/\w][0-9a-f]{2}/)\b([0-9a-f]{40}|[0-9a-f]{32}|[0-9a-f]{13,16})\b(?!\.l)};
    my $number = sub { s/$id/"<id " . ($ids{$1} ||= 1 + keys %ids) . ">"/ge };
    if ($how{sorted}) {
      # Whether a waiter asked right after the grant.
      s/(:w \| .* [xs] <us> <us\S*>) [23] /$1 <2 or 3> /g;
      # Lines that differ in ids only are numbered after the others, whose order is certain.
      my (%key, %times);
      my @lines = split /\n/;
      for (@lines) { ($key{$_} = $_) =~ s/$id/<id>/g; ++$times{$key{$_}} }
      @lines = sort { $times{$key{$a}} <=> $times{$key{$b}} || $key{$a} cmp $key{$b} || $a cmp $b } @lines;
      $_ = join "", map { "$_\n" } @lines;
      $number->();
      $_ = join "", map { "$_\n" } sort { ($a =~ s/\d+/sprintf "%03d", $&/ger) cmp ($b =~ s/\d+/sprintf "%03d", $&/ger) } split /\n/;
    } else {
      $number->();
    }
    print;
  ' "$golden_began" "$golden_boot" "$golden_fence" "$golden_pids" "$BATS_TEST_TMPDIR" "$HOSTNAME" "$golden_now" "$@"
}

# Compares the standard input with golden/<topic>.txt, or writes that with DLOCK_UPDATE_GOLDEN. What
# is mostly as on Redis is stored in golden/<topic>.diff as what differs from the text of Redis. A
# difference is printed, and fails the test in `assert_golden`.
golden() {  # <topic>
  local base=$BATS_TEST_DIRNAME/golden/redis-${1#*-}.txt file=$BATS_TEST_DIRNAME/golden/$1
  cat > is-now
  if [[ -n ${UPDATE_GOLDEN:-} ]]; then
    rm -f "$file.txt" "$file.diff"
    diff -U0 --label Redis --label "${1%%-*}" "$base" is-now > differs-from-redis || true
    if [[ -e $base ]] && (($(wc -l < differs-from-redis) < $(wc -l < is-now) * 2 / 3)); then
      cp differs-from-redis "$file.diff"
    else
      cp is-now "$file.txt"
    fi
    return
  fi
  if [[ -s $file.diff ]]; then
    patch -s -o expected "$base" "$file.diff" >&2 || echo "golden/$1.diff is not of this redis-${1#*-}.txt" >&2
  elif [[ -e $file.diff ]]; then
    cp "$base" expected
  else
    cp "$file.txt" expected
  fi
  if ! diff -u --label "expected in golden/$1" --label 'is now' expected is-now >&2; then
    # A pipe would lose a variable.
    echo "$1" >> "$BATS_TEST_TMPDIR/differs"
  fi
}

assert_golden() {
  [[ ! -e $BATS_TEST_TMPDIR/differs ]] ||
    { echo "not as in $(paste -sd ' ' "$BATS_TEST_TMPDIR/differs") (DLOCK_UPDATE_GOLDEN=1 writes them anew)" >&2; return 1; }
}

# Prints a heading, for the next part of a file.
part() { printf '\n== %s\n' "$*"; }
