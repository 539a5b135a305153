#: NEEDS aws curl jq
#: TYPE 127.0.0.1:8700 => 127.0.0.1:$port
#: TYPE tierml fakecloud --prices => serve tierml fakecloud --prices
#: TYPE tierml fakecloud bill => unserve; tierml fakecloud bill
#: TYPE tierml fakecloud --provider => serve tierml fakecloud --provider
#: TYPE demo.yaml => demo.yaml; unserve
#: TYPE i-f82a4206d3b9dfa82 => $(ec2 describe-instances --query 'Reservations[0].Instances[0].InstanceId' --output text)
#: TYPE $U/latest/meta-data/spot/instance-action => $U/latest/meta-data/instance-id
port=$(free_port)
#: AFTER
curl -sf http://127.0.0.1:$port/_control/healthz
