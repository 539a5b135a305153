"""dstack's AWS backend (third-party code) checks its credentials, queries quotas and zones, and launches, waits for and ends an
instance through tierml fakecloud: lab/exams/provisioner-exam."""

import sys

from dstack._internal.core.backends.aws import auth
from dstack._internal.core.backends.aws.compute import AWSCompute, _get_regions_to_quotas, _get_regions_to_zones
from dstack._internal.core.backends.aws.models import AWSAccessKeyCreds, AWSConfig
from dstack._internal.core.models.backends.base import BackendType
from dstack._internal.core.models.instances import (Disk, InstanceAvailability, InstanceConfiguration, InstanceOfferWithAvailability, InstanceType,
                                                    Resources, SSHKey)

REGION = "us-west-1"
spot = sys.argv[1:] == ["spot"]
config = AWSConfig(creds=AWSAccessKeyCreds(access_key="any", secret_key="any"), regions=[REGION])
auth.authenticate(config.creds, REGION)
aws = AWSCompute(config)
zones = _get_regions_to_zones(aws.session, [REGION])[REGION]
print("authenticated, quotas", _get_regions_to_quotas(aws.session, [REGION])[REGION], "zones", zones)
offer = InstanceOfferWithAvailability(
    backend=BackendType.AWS, region=REGION, price=0.239, availability=InstanceAvailability.AVAILABLE, availability_zones=zones,
    instance=InstanceType(name="c3.xlarge", resources=Resources(cpus=4, memory_mib=7680, gpus=[], spot=spot, disk=Disk(size_mib=102400))))
wish = InstanceConfiguration(project_name="exam", instance_name="exam-0", user="any", ssh_keys=[SSHKey(public="ssh-ed25519 AAAA exam")])
made = aws.create_instance(offer, wish, None)
print("launched", made.instance_id, "in", made.availability_zone, "for", made.username)
aws.update_provisioning_data(made, "", "")
assert made.hostname, made
print("ssh at", made.hostname, "inside", made.internal_ip)
aws.terminate_instance(made.instance_id, REGION, made.backend_data)
instance = aws.session.resource("ec2", region_name=REGION).Instance(made.instance_id)
instance.wait_until_terminated()
print("ended:", instance.state["Name"])
