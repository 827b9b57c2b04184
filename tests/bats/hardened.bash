# Helper for packages.bats and long/release.bats: reads from the files how the program was built and linked.
# They need support.bash.

# Asserts that a program has what makes a fault of it hard to exploit, and that dlock's own code was compiled with
# it. A position-dependent program has no dynamic section that would say NOW: its only table of addresses is .got.plt.
assert_hardened() {  # <program> <library of dlock's own code>
  local segments sections relro objects marked symbols
  segments=$(readelf -lW "$1")
  sections=$(readelf -SW "$1")
  [[ $segments =~ GNU_STACK[^$'\n']*' RW ' ]] || { echo 'executable stack' >&2; return 1; }
  ! grep -q ' RWE ' <<< "$segments" || { echo 'a segment that can be written and executed' >&2; return 1; }
  ! grep -E '^ +[0-9]+ .*\.rodata.*\.text' <<< "$segments" >&2 || { echo 'constants can be executed' >&2; return 1; }
  read -r _ _ relro _ _ size _ < <(grep GNU_RELRO <<< "$segments")
  got=$(sed -nE 's/.* \.got\.plt +PROGBITS +([0-9a-f]+) .*/\1/p' <<< "$sections")
  ((relro <= 0x$got && 0x$got < relro + size)) || { echo 'part of the table of addresses can be written' >&2; return 1; }

  objects=$(ar t "$2" | wc -l)
  marked=$(readelf -nW "$2" | grep -cE 'x86 feature: IBT, SHSTK|AArch64 feature: BTI, PAC')
  assert_equal "$marked" "$objects"
  symbols=$(readelf -sW "$2" 2> /dev/null | awk '$7 == "UND" { print $8 }' | sort -u)
  for name in __stack_chk_fail _ZSt21__glibcxx_assert_failPKciS0_S0_; do
    grep -qx "$name" <<< "$symbols" || { echo "not compiled with $name" >&2; return 1; }
  done
  grep -q '^__.*_chk$' <<< "$symbols" || { echo 'without _FORTIFY_SOURCE' >&2; return 1; }
}
