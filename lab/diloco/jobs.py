"""The jobs of these measurements, on machines of the local cloud at a constant price."""

import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

JOB = """name: {name}
cloud: local
{kind}
resources: {{count: {machines}, any_of: [{{type: c3.large, max_price: 0.10}}]}}
workdir: {work}
run: exec {python} {program}
envs: {envs}
progress: {{of: {steps}}}
hours: 2
max_duration: 1000h
local:
  prices: {folder}/prices.csv
  catalog: {folder}/catalog.csv
  start: 2014-04-01T00:00:00Z
  speed: 60
  boot: {boot}
{local}"""
PRICES = """timestamp,zone,instance_type,product,price
2014-03-01T00:00:00Z,us-west-1a,c3.large,Linux/UNIX,0.02
2014-04-30T00:00:00Z,us-west-1a,c3.large,Linux/UNIX,0.02
"""
CATALOG = """region,instance_type,vcpu,memory_gib,linux_ondemand_usd_hour
us-west-1,c3.large,2,3.75,0.120
"""


def write(folder, name, program, steps, envs, every=50, parameters="1M", machines=4, deterministic=False, local="", boot="100ms", gang="", transport="float32", python=sys.executable, coordinator=""):
    """Writes a job of a program of this folder, and returns its name: replicas on tiers, or with gang, how often it is saved, a gang. With
    a coordinator only a lost rank of that is replaced."""
    work = os.path.join(folder, "work")
    os.makedirs(work, exist_ok=True)
    for file, text in (("prices.csv", PRICES), ("catalog.csv", CATALOG)):
        with open(os.path.join(folder, file), "w") as f:
            f.write(text)
    for file in os.listdir(HERE):
        if file.endswith(".py"):
            shutil.copy(os.path.join(HERE, file), work)
    envs = {"OMP_NUM_THREADS": 1, "OPENBLAS_NUM_THREADS": 1, **{v: os.environ[v] for v in ("TEXT", "DIGITS", "LD_LIBRARY_PATH") if v in os.environ}, **envs}
    kind = f"state: {{dir: state, every: {gang}}}" if gang else "reliable: {type: c3.large, count: 1}\ntiers: {parameters: %s, every: %s, transport: %s%s}" % (
        parameters, every, transport, ", deterministic: true" if deterministic else "")
    if coordinator:
        kind += f"\non_loss: replace\ncoordinator: exec {python} {coordinator}\nretries: 20"
    job = os.path.join(folder, name + ".yaml")
    with open(job, "w") as f:
        f.write(JOB.format(name=name, work=work, python=python, program=program, envs=json.dumps(envs), kind=kind, steps=steps, folder=folder,
                           machines=machines, boot=boot, local=local))
    return job


def run(tierml, folder, name, *args, **settings):
    """The directory of a job's first run, which has trained."""
    job = write(folder, name, *args, **settings)
    done = subprocess.run([tierml, "run", "-y", "--quiet", job], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{name}: {done.stdout[-3000:]}{done.stderr[-3000:]}")
    return os.path.join(folder, "runs", name + "-1")
