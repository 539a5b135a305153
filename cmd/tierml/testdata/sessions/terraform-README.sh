#: TYPE cd terraform/aws => true
played make <<<'test "$*" = build'
played terraform <<'END'
case "$*" in
init | apply*-var\ binary=../../bin/tierml*) touch applied ;;
*) echo "terraform $*: not played" >&2; exit 1 ;;
esac
END
#: AFTER
test -e applied
