#: NEEDS curl jq
#: TYPE tierml server --directory work  => serve tierml server --listen localhost:$port --directory work 
#: TYPE localhost:7071 => localhost:$port
#: TYPE tierml run  => tierml run -y 
port=$(free_port)
cp examples/data/small.csv ratings.csv
cp examples/data/aws-us-west-1a-c3-2014.csv.gz prices.csv.gz
cp examples/data/aws-ondemand-us-west-1-2015-04-02.csv types.csv
# Long, so that it goes on while it is asked about.
sed -E 's/clocks: 40,/clocks: 20000,/; s/^budget:.*/max_duration: 10000h/; s/speed: 720/speed: 60/; s,data/small.csv,RATINGS,; s,data/aws-us.*,PRICES,; s,data/aws-ondemand.*,TYPES,' examples/demo.yaml >job.yaml
played ssh <<<'exec sleep 600' # the tunnel leads to this host
played scp <<<'cp "${1#*:}" "$2"'
#: AFTER
# Every call of the page's table has been made.
test -s report.html
jq -e '.state == "stopped" or .state == "finished" or .state == "running" or .state == "queued"' <<<"$(api jobs/$id)"
api jobs/$id/stop -d '{"now": true}'
stopped() { api jobs | jq -e 'all(.[]; .state != "running" and .state != "stopping" and .state != "queued")'; }
until_true stopped
tierml ps
unserve
