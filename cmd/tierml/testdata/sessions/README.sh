#: TABLES
#: TYPE git clone https://github.com/tierml/tierml && cd tierml => git clone https://github.com/tierml/tierml
#: TYPE export PATH=$PWD/bin:$PATH => PATH=$PWD/bin:$PATH; middle_job
#: TYPE tierml run ratings.yaml => interrupted_run
#: TYPE tierml run --resume => short_job; tierml run -y --resume
#: TYPE tierml dashboard => serve tierml dashboard --listen localhost:$port; unserve
#: TYPE tierml scale ratings => long_job; long_run; tierml scale ratings
#: TYPE tierml drill ratings => tierml drill --within 2m ratings
#: TYPE tierml stop ratings => tierml stop ratings; wait; short_job
#: TYPE tierml run --policy => tierml run -y --policy
#: TYPE tierml server => serve tierml server --directory work --listen localhost:$port; unserve
#: TYPE tierml leaks JOB.yaml => cloud_job; tierml leaks cloud.yaml
#: TYPE tierml down JOB.yaml => tierml down -y cloud.yaml; unserve
#: TYPE tierml fakecloud => serve tierml fakecloud --prices examples/data/aws-us-west-1a-c3-2014.csv.gz --catalog examples/data/aws-ondemand-us-west-1-2015-04-02.csv; unserve
port=$(free_port)
played git <<<'test "$1" = clone'
played make <<<'test "$1" = demo && exec tierml run -y examples/demo.yaml'
short_job() { sed 's/^name: demo/name: ratings/; s,data/,examples/data/,' examples/demo.yaml >ratings.yaml; }
middle_job() { short_job; sed -i 's/clocks: 40,/clocks: 200,/' ratings.yaml; }
long_job() { short_job; sed -i 's/clocks: 40,/clocks: 20000,/; s/^budget:.*/max_duration: 10000h/; s/speed: 720/speed: 60/' ratings.yaml; }
long_run() {
  local before
  before=$(find runs -maxdepth 1 -name 'ratings-*' | wc -l)
  tierml run -y ratings.yaml >long.log 2>&1 &
  running=$!
  until_true grep -q '"kind":"clock"' "runs/ratings-$((before + 1))/journal.jsonl"
}
interrupted_run() {
  long_run
  kill "$running"
  wait "$running" || true
}
export AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any AWS_EC2_METADATA_DISABLED=true
cloud_job() {
  serve tierml fakecloud --prices examples/data/aws-us-west-1a-c3-2014.csv.gz --catalog examples/data/aws-ondemand-us-west-1-2015-04-02.csv
  cat >cloud.yaml <<END
name: cloud
cloud: ec2
resources: {count: 1, any_of: [{type: c3.xlarge}]}
reliable: {type: c3.xlarge}
train: {app: mf, data: examples/data/small.csv, clocks: 10}
ec2:
  region: us-west-1
  endpoint: $(grep -ohE 'http://[0-9.:]+' served.*.log | tail -1)
  image: ami-0123456789abcdef0
  program: {url: s3://bucket/program/tierml, sha256: 7d865e959b2466918c9863afca942d0fb89d7c9ac0c99bafc3749504ded97730}
  checkpoints: s3://bucket/checkpoints
  catalog: examples/data/aws-ondemand-us-west-1-2015-04-02.csv
END
}
