# Models that `tierml init` and `tierml train` make with default settings, compared with scikit-learn's with its defaults, on held-out
# data: `make defaults`, which prints a table in Markdown.
#
#   python defaults.py TIERML DATA-FOLDER SEEDS [NAME...]
#
# Every seed splits each data set anew, four fifths to train on; both sides get the same part. tierml splits off its own tenth of that to
# know when to stop. Figures are means over the seeds.
import gzip, io, os, subprocess, sys, tempfile, time
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads that spin for systems of ten equations take minutes of a busy host
import numpy as np, pandas as pd
from sklearn import datasets
from sklearn.compose import make_column_transformer, make_column_selector as columns
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, root_mean_squared_error
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from scipy.sparse import csr_matrix

tierml, data, seeds, names = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]


def scored(name, seed, ours, theirs):
    """Reports progress: some data sets take minutes."""
    print(f"{time.strftime('%H:%M:%S')} {name} seed {seed}: {ours[-1]:.4f}, other {theirs[-1]:.4f}", file=sys.stderr, flush=True)


def run(folder, *words):
    done = subprocess.run([tierml, *words], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stderr


def train(folder, train_file, app, seed):
    """The model of a job that init writes; the seed is the only line that differs."""
    run(folder, "init", "job.yaml", "--set", "name=job", "--data", train_file, "--app", app, "--cloud", "none", "--force")
    path = os.path.join(folder, "job.yaml")
    text = open(path).read()
    with open(path, "w") as f:
        f.write(f"seed: {seed}\n" + text)
    said = run(folder, "train", "job.yaml", "--into", "model.safetensors")
    if "still" in said and "improv" in said:
        print(f"{train_file} with seed {seed}: {said.strip().splitlines()[-1]}", file=sys.stderr)


def predictions(folder, file):
    run(folder, "predict", "model.safetensors", file, "--into", "predictions.csv")
    return pd.read_csv(os.path.join(folder, "predictions.csv"))


def frame(name):
    if name in ("digits", "breast_cancer", "wine", "iris", "diabetes"):
        f = getattr(datasets, "load_" + name)(as_frame=True).frame.rename(columns=str)
        return f if name == "diabetes" else f.assign(target="c" + f.target.astype(str))
    if name == "shuttle":
        f = pd.read_csv(f"{data}/mlr/shuttle.csv.gz")
        return f.drop(columns="class").assign(target=f["class"])
    if name == "housing":
        f = pd.read_csv(f"{data}/regression/california-housing.csv.gz")
        return f.drop(columns="median_house_value").assign(target=f.median_house_value)
    if name == "a9a":
        x, y = datasets.load_svmlight_file(f"{data}/linear/a9a.gz")
        f = pd.DataFrame(x.toarray().astype(int)).rename(columns=lambda i: f"f{i + 1}")
        return f.assign(target=np.where(y > 0, "more", "less"))
    if name == "mnist":
        pixels = np.frombuffer(gzip.open(f"{data}/mlr/mnist-t10k-images-idx3-ubyte.gz").read()[16:], np.uint8).reshape(-1, 784)
        labels = np.frombuffer(gzip.open(f"{data}/mlr/mnist-t10k-labels-idx1-ubyte.gz").read()[8:], np.uint8)
        return pd.DataFrame(pixels).rename(columns=lambda i: f"p{i}").assign(target=[f"c{v}" for v in labels])


def table(name, app):
    """A table by both: accuracy, or the root mean squared error of a number."""
    f, ours, theirs = frame(name), [], []
    number = app == "ridge"
    for seed in range(1, seeds + 1):
        a, b = train_test_split(f, test_size=0.2, random_state=seed, stratify=None if number else f.target)
        with tempfile.TemporaryDirectory() as folder:
            a.to_csv(f"{folder}/train.csv", index=False)
            b.drop(columns="target").assign(target=0.0 if number else a.target.iloc[0]).to_csv(f"{folder}/test.csv", index=False)
            train(folder, "train.csv", app, seed)
            p = predictions(folder, "test.csv").iloc[:, 0]
        prepare = make_column_transformer(
            (make_pipeline(SimpleImputer(), StandardScaler()), columns(dtype_include=np.number)),
            (OneHotEncoder(handle_unknown="ignore"), columns(dtype_exclude=np.number)))
        m = make_pipeline(prepare, Ridge() if number else LogisticRegression(max_iter=1000)).fit(a.drop(columns="target"), a.target)
        q = m.predict(b.drop(columns="target"))
        score = root_mean_squared_error if number else accuracy_score
        ours.append(score(b.target, p)), theirs.append(score(b.target, q))
        scored(name, seed, ours, theirs)
    return np.mean(ours), np.mean(theirs), "RMSE" if number else "accuracy", "Ridge" if number else "LogisticRegression"


def ratings(name):
    """Ratings by alternating least squares in numpy, the textbook's baseline: scikit-learn has no matrix factorisation of ratings with gaps."""
    if name == "jester5k":
        f = pd.read_csv(f"{data}/mf/jester5k.csv.gz")
    else:
        f = pd.read_csv(f"{data}/mf/ml-100k.u.data.gz", sep="\t", names=["user", "item", "rating", "time"]).drop(columns="time")
    ours, theirs = [], []
    for seed in range(1, seeds + 1):
        a, b = train_test_split(f, test_size=0.2, random_state=seed)
        b = b[b.user.isin(a.user) & b.item.isin(a.item)]
        with tempfile.TemporaryDirectory() as folder:
            a.to_csv(f"{folder}/train.csv", index=False), b.to_csv(f"{folder}/test.csv", index=False)
            train(folder, "train.csv", "mf", seed)
            p = predictions(folder, "test.csv")
            ours.append(root_mean_squared_error(b.rating, p.iloc[:, -1]))
        theirs.append(root_mean_squared_error(b.rating, als(a, b, seed)))
        scored(name, seed, ours, theirs)
    return np.mean(ours), np.mean(theirs), "RMSE", "ALS, rank 10"


def als(a, b, seed, rank=10, weight=0.1, rounds=15):
    """Zhou and others 2008: penalties weighted by the number of ratings; on what the means of users and items leave."""
    (_, users), (_, items) = np.unique(a.user, return_inverse=True), np.unique(a.item, return_inverse=True)
    r, mean = a.rating.to_numpy(float), a.rating.mean()
    bi, bu = np.zeros(items.max() + 1), np.zeros(users.max() + 1)
    for _ in range(5):
        bi = np.bincount(items, r - mean - bu[users]) / (np.bincount(items) + 5)
        bu = np.bincount(users, r - mean - bi[items]) / (np.bincount(users) + 5)
    rest = csr_matrix((r - mean - bu[users] - bi[items] + 1e-12, (users, items)))
    draw = np.random.default_rng(seed)
    q = draw.normal(0, 0.1, (rest.shape[1], rank))

    def solve(m, other):
        out = np.zeros((m.shape[0], rank))
        for i in range(m.shape[0]):
            at, v = m.indices[m.indptr[i]:m.indptr[i + 1]], m.data[m.indptr[i]:m.indptr[i + 1]]
            o = other[at]
            out[i] = np.linalg.solve(o.T @ o + weight * max(len(at), 1) * np.eye(rank) * (r.std() ** 2), o.T @ v)
        return out
    down = rest.T.tocsr()
    for _ in range(rounds):
        p = solve(rest, q)
        q = solve(down, p)
    u, i = np.searchsorted(np.unique(a.user), b.user), np.searchsorted(np.unique(a.item), b.item)
    return np.clip(mean + bu[u] + bi[i] + (p[u] * q[i]).sum(1), r.min(), r.max())


def topics(name, count=20):
    """Perplexity of the second half of each test document's words, by the mixture of its first half (document completion)."""
    def read(part):
        lines = gzip.open(f"{data}/lda/docword.20news-{part}.txt.gz", "rt").read().splitlines()
        return int(lines[1]), np.loadtxt(io.StringIO("\n".join(lines[3:])), dtype=int)
    words, a = read("train")
    _, b = read("test")
    words = max(words, a[:, 1].max(), b[:, 1].max())
    often = np.bincount(a[:, 1], minlength=words + 1) >= 20  # words in fewer documents teach nothing, and scikit-learn would take hours
    a, b = a[often[a[:, 1]]], b[often[b[:, 1]]]
    number = np.cumsum(often) - 1
    a[:, 1], b[:, 1] = number[a[:, 1]], number[b[:, 1]]
    _, a[:, 0] = np.unique(a[:, 0], return_inverse=True)
    _, b[:, 0] = np.unique(b[:, 0], return_inverse=True)
    n = often.sum()
    x = csr_matrix((a[:, 2], (a[:, 0], a[:, 1])), shape=(a[:, 0].max() + 1, n))

    def perplexity(phi, alpha):  # phi: words, topics
        bits, tokens = 0.0, 0
        for rows in np.split(b, np.flatnonzero(np.diff(b[:, 0])) + 1):
            seen, asked = rows[::2], rows[1::2]
            if len(asked) == 0:
                continue
            part, mixture = phi[seen[:, 1]], np.full(phi.shape[1], 1 / phi.shape[1])
            for _ in range(50):
                share = part * mixture
                mixture = alpha + (seen[:, 2:] * share / share.sum(1, keepdims=True)).sum(0)
                mixture /= mixture.sum()
            bits -= asked[:, 2] @ np.log(phi[asked[:, 1]] @ mixture)
            tokens += asked[:, 2].sum()
        return np.exp(bits / tokens)
    from safetensors import safe_open
    ours, theirs = [], []
    for seed in range(1, seeds + 1):
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/docword.news.txt", "w") as f:
                f.write(f"{x.shape[0]}\n{n}\n{len(a)}\n")
                np.savetxt(f, a + [1, 1, 0], fmt="%d")
            train(folder, "docword.news.txt", "lda", seed)
            m = safe_open(f"{folder}/model.safetensors", "np")
            meta, t = m.metadata(), m.get_tensor
            phi = (t("word_topic") + float(meta["beta"])) / (t("topic_totals") + n * float(meta["beta"]))
            ours.append(perplexity(phi, float(meta["alpha"])))
        m = LatentDirichletAllocation(phi.shape[1], learning_method="online", random_state=seed, n_jobs=2).fit(x)
        theirs.append(perplexity((m.components_ / m.components_.sum(1, keepdims=True)).T, m.doc_topic_prior_))
        scored(name, seed, ours, theirs)
    return np.mean(ours), np.mean(theirs), "perplexity", "LatentDirichletAllocation (online)"


sets = {"a9a": (table, "logistic"), "shuttle": (table, "mlr"), "mnist": (table, "mlr"), "digits": (table, "mlr"), "breast_cancer": (table, "logistic"),
        "wine": (table, "mlr"), "iris": (table, "mlr"), "housing": (table, "ridge"), "diabetes": (table, "ridge"), "ml-100k": (ratings, None),
        "jester5k": (ratings, None), "20news": (topics, None)}
print(f"| data | application | measure | tierml | other | by | within |\n|---|---|---|---|---|---|---|", flush=True)
failed = 0
for name in names or sets:
    how, app = sets[name]
    ours, theirs, measure, other = how(name, app) if app else how(name)
    better = ours - theirs if measure == "accuracy" else 1 - ours / theirs
    within = better > -0.01
    failed += not within
    digits = 3 if measure == "accuracy" else 1 if theirs > 100 else 4
    app = app or {"ratings": "mf", "topics": "lda"}[how.__name__]
    print(f"| {name} | {app} | {measure} | {ours:.{digits}f} | {theirs:.{digits}f} | {other} | {'yes' if within else 'NO'} ({better:+.3f}) |", flush=True)
sys.exit(1 if failed else 0)
