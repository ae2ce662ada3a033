# SPDX-License-Identifier: MIT
# program.pl - a program in Perl that behaves as guest.h says: signals, exceptions, children.
use strict;
use warnings;

open(my $control, '+<', $ARGV[1]) or exit 2;
binmode($control);

sub get {
	my $bytes;
	sysseek($control, $_[0], 0);
	sysread($control, $bytes, 4);
	return unpack('V', $bytes);
}

sub put {
	sysseek($control, $_[0], 0);
	syswrite($control, ref $_[1] ? ${$_[1]} : pack('V', $_[1]));
}

sub must {
	my ($what, $text) = @_;
	return if $what;
	put(24, \"$text\0");
	print "$text\n";
	exit 1;
}

my $ticks = 0;
$SIG{USR1} = sub { $ticks++ };
put(12, $$);
while (1) {
	my $sum = 0;
	for my $i (1 .. 1000) {
		eval { die "deep\n" if $i % 100 == 0; 1 } or $sum++;
		$sum += length('x' x ($i % 30));
	}
	must($sum == 14420, "a sum is $sum");
	my $before = $ticks;
	kill 'USR1', $$;
	select(undef, undef, undef, 0.001);
	must($ticks == $before + 1, 'a signal is lost');
	must(system('true') == 0, 'a child failed') if get(16) % 20 == 0;
	put(16, get(16) + 1);
	select(undef, undef, undef, 0.003);
	last if get(0);
}
print "ok\n";
