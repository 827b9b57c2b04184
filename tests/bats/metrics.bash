# Helpers for tests of dlock list --prometheus. They check the output of `run`.
# shellcheck disable=SC2154  # output

# Asserts that the output is Prometheus' text format (0.0.4) as dlock writes it: all lines of
# a metric are together, first its help, then its type, then its samples. A metric is a
# counter if its name ends in _total, a histogram if that is its type, and otherwise a gauge. No
# sample occurs twice, and only valid escapes occur. The buckets of a histogram grow, and the last
# one has all that it counts. If promtool is installed, it has to accept the output as well.
assert_metrics() {
  printf '%s\n' "$output" > "$BATS_TEST_TMPDIR/metrics.prom"
  # shellcheck disable=SC2016
  perl -e '
    my ($state, $metric, $histogram, $last, %seen, %samples) = ("start", "", 0, 0);
    my $label = qr/"(?:[^"\\\n]|\\\\|\\"|\\n)*"/;
    local $/ = undef;
    my $text = <>;
    utf8::decode(my $copy = $text) or die "not UTF-8\n";
    $text =~ /\n\z/ or die "the last line has no line feed\n";
    for (split /\n/, $text, -1) {
      if (/^# HELP ([a-z]+(?:_[a-z]+)*) [A-Z][^\\]*\.$/ && $state ne "help" && $state ne "type") {
        die "repeated metric: $1\n" if $seen{$1}++;
        ($state, $metric) = ("help", $1);
      } elsif (/^# TYPE (\S+) (gauge|counter|histogram)$/ && $state eq "help" && $1 eq $metric &&
               ($2 eq "counter") == ($metric =~ /_total$/)) {
        ($state, $histogram, $last) = ("type", $2 eq "histogram", 0);
      } elsif ($histogram && $state =~ /^(?:type|sample|bucket)$/ &&
               /^${metric}_bucket\{(name=$label,namespace=$label),le="([0-9.]+|\+Inf)"\} ([0-9]+)$/) {
        die "repeated sample: $_\n" if $samples{"$1$2"}++;
        die "fewer than in the bucket before: $_\n" if $3 < $last;
        ($state, $last) = ($2 eq "+Inf" ? "all" : "bucket", $3);
      } elsif ($histogram && $state eq "all" && /^${metric}_sum\{.*\} [0-9]+(?:\.[0-9]*[1-9])?$/) {
        $state = "sum";
      } elsif ($histogram && $state eq "sum" && /^${metric}_count\{.*\} $last$/) {
        ($state, $last) = ("sample", 0);
      } elsif (!$histogram && $state =~ /^(?:type|sample)$/ &&
               /^($metric)(\{(?:name=$label,)?namespace=$label\}) [0-9]+(?:\.[0-9]*[1-9])?$/) {
        die "repeated sample: $1$2\n" if $samples{"$1$2"}++;
        $state = "sample";
      } elsif ($_ eq "" && $state eq "sample") {
        $state = "end";
      } else {
        die "unexpected after $state: $_\n";
      }
    }
    $state eq "end" or die "the output does not end after a sample\n";
  ' "$BATS_TEST_TMPDIR/metrics.prom" || return
  ! command -v promtool > /dev/null || promtool check metrics < "$BATS_TEST_TMPDIR/metrics.prom"
}

# Prints the value of a metric of a lock.
metric() {  # <metric> [<label value, escaped>]
  awk -v start="$1{name=\"${2:-job}\"," 'index($0, start) == 1 { print $NF }' <<< "$output"
}
