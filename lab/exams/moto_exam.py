"""A pytest plugin that runs moto's EC2 tests (third-party code) against tierml fakecloud instead of moto: lab/exams/moto-exam.

Each test gets a new cloud. A test that makes a call that the fake cloud does not claim, or that uses two regions, is skipped with that reason; all
others count.
"""

import os
import signal
import socket
import subprocess
import time

import botocore.client
import pytest
from botocore.exceptions import ClientError

PROGRAM, FOLDER = os.environ["TIERML_EXAM"], os.environ["TIERML_EXAM_FOLDER"]
TYPES = {"t1.micro": (1, 0.6), "t2.nano": (1, 0.5), "t2.micro": (1, 1), "t2.small": (1, 2), "t2.medium": (2, 4), "t3.micro": (2, 1),
         "m1.small": (1, 1.7), "m1.medium": (1, 3.7), "m1.large": (2, 7.5), "c3.large": (2, 3.75), "c4.large": (2, 3.75), "c5.large": (2, 4),
         "m5.large": (2, 8), "m5.xlarge": (4, 16), "m4.large": (2, 8), "r5.large": (2, 16)}

# The endpoint is read when moto is imported, below.
with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    PORT = s.getsockname()[1]
os.environ.update({
    "TEST_SERVER_MODE": "true", "TEST_SERVER_MODE_ENDPOINT": f"http://127.0.0.1:{PORT}", "MOTO_CALL_RESET_API": "false", "MOTO_ACCOUNT_ID": "000000000000",
    "AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_DEFAULT_REGION": "us-east-1", "AWS_MAX_ATTEMPTS": "2"})


import moto.core  # noqa: E402

moto.core.DEFAULT_ACCOUNT_ID = os.environ["MOTO_ACCOUNT_ID"]  # tests take the number from here


def market(region):
    """Writes a market of all types in six zones."""
    prices, catalog = os.path.join(FOLDER, "prices.csv"), os.path.join(FOLDER, "catalog.csv")
    with open(catalog, "w") as f:
        f.write("region,instance_type,vcpu,memory_gib,ecu,linux_ondemand_usd_hour,network\n")
        f.writelines(f"{region},{name},{vcpu},{memory},1,0.1,Moderate\n" for name, (vcpu, memory) in TYPES.items())
    with open(prices, "w") as f:
        f.write("timestamp,zone,instance_type,product,price\n")
        f.writelines(f"2015-01-01T00:00:00Z,{region}{zone},{name},Linux/UNIX,0.03\n" for zone in "abcdef" for name in TYPES)
    return prices, catalog


class Cloud:
    """A cloud of the region that the test uses first."""

    def __init__(self):
        self.process = self.region = None

    def open(self, region):
        if self.region is not None:
            return
        self.region = region
        prices, catalog = market(region)
        with open(os.path.join(FOLDER, "fakecloud.log"), "wb") as log:
            self.process = subprocess.Popen([PROGRAM, "fakecloud", "--prices", prices, "--catalog", catalog, "--start", "2015-02-01T00:00:00Z",
                                             "--set", "boot=0s", "--listen", f"127.0.0.1:{PORT}"], stdout=log, stderr=log)
        for _ in range(1000):
            if self.process.poll() is not None:
                pytest.exit(f"the fake cloud ended: see {FOLDER}/fakecloud.log", 3)
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", PORT)) == 0:
                    return
            time.sleep(0.02)

    def close(self):
        if self.process:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                raise AssertionError("the fake cloud does not end")


now = Cloud()
call = botocore.client.BaseClient._make_api_call


def claimed(self, operation, parameters):
    now.open(self.meta.region_name)
    if self.meta.region_name != now.region:
        pytest.skip("asks in two regions")
    try:
        return call(self, operation, parameters)
    except ClientError as e:
        if e.response["Error"]["Code"] in ("InvalidAction", "UnknownOperationException") or "is not spoken here" in str(e):
            pytest.skip(f"calls {operation}, which is not claimed")
        raise


botocore.client.BaseClient._make_api_call = claimed


def late(*_):
    raise TimeoutError("the test takes more than 20 seconds")


@pytest.fixture(autouse=True)
def cloud():
    global now
    now = Cloud()
    signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    yield
    signal.alarm(0)
    now.close()
