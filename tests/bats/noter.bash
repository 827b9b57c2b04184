# shellcheck shell=bash
# A command that notes which signals it gets. For Bats files that `load noter`.

# Creates `note`, a command that appends its name and each signal that it gets to the file
# `noted`. It exits with 7 once the file `finish` exists, and not before.
make_noter() {
  cat > note << 'END'
#!/usr/bin/perl
use strict;
use Config;
my $name = shift;
open my $noted, '>>', 'noted' or die $!;
sub note { syswrite $noted, "$name $_[0]\n" }
for my $signal (split ' ', $Config{sig_name}) {
  next if $signal =~ /^(ZERO|KILL|STOP|CHLD|CLD|TSTP|TTIN|TTOU|NUM3[23])$/;
  $SIG{$signal} = \&note;
}
note('ready');
until (-e 'finish') { select undef, undef, undef, 0.02 }
exit 7;
END
  chmod +x note
}

# True if all of these were noted.
noted() {  # "<name> <signal>"...
  local all what IFS=,
  mapfile -t all 2> /dev/null < noted
  for what; do [[ ,${all[*]}, == *,"$what",* ]] || return; done
}
