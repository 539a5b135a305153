#: TYPE tierml run JOB.yaml => tierml run -y examples/demo.yaml
#: TYPE cd terraform/aws => true
port=$(free_port)
serve tierml controller --listen localhost:$port --directory work
played make <<<'test "$*" = build'
export port
played terraform <<'END'
case "$*" in
init | apply*-var\ binary=../../bin/tierml*) ;;
"output -raw tunnel") echo sleep 600 ;; # the controller is on this host
"output -raw token") echo "echo Starting session; cat $PWD/work/token; echo; echo Exiting session" ;;
"output -raw url") echo "http://localhost:$port" ;;
*) echo "terraform $*: not played" >&2; exit 1 ;;
esac
END
#: AFTER
tierml ps -o json | grep -q '"finished"'
unserve
