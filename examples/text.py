"""Classify texts by their words, with a sparse matrix of counts.

The texts are the docstrings of SciPy's functions, up to their parameters. Which subpackage is a
function from? The classifier is a multinomial logistic regression: the rows of a sparse matrix are
texts, its columns are words. Optax maximizes the log-posterior of its coefficients. The result must
agree with scikit-learn.
"""

import jaxprgen  # noqa: I001  # First: it makes Aesara importable on current NumPy and Python.
import importlib
import re
from collections import Counter

import aesara.sparse as sparse
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jax.experimental.sparse import BCSR
from sklearn.linear_model import LogisticRegression

import figures
from map_estimate import by_optax

jax.config.update("jax_enable_x64", True)

TOPICS = "linalg", "signal", "special", "stats"

X, topic, beta = sparse.csr_matrix("X"), at.lvector("topic"), at.dmatrix("beta")
scores = sparse.dot(X, beta)  # (texts, topics)
chosen = scores[at.arange(topic.shape[0]), topic]
log_likelihood = at.sum(chosen - at.logsumexp(scores, axis=1))
# Each coefficient has a standard normal prior.
log_posterior = jaxprgen.compile([beta, X, topic], log_likelihood - at.sum(beta**2) / 2)
classify = jaxprgen.compile([beta, X], at.argmax(scores, axis=1))


def load_texts():
    """Return a list of words for each text, and the number of its topic."""
    texts = []
    for number, name in enumerate(TOPICS):
        module = importlib.import_module(f"scipy.{name}")
        for public in sorted(module.__all__):
            documented = getattr(module, public)
            if callable(documented) and not isinstance(documented, type):
                prose = re.split(r"\n *Parameters *\n", documented.__doc__ or "")[0]
                texts.append((re.findall("[a-z]{3,}", prose.lower()), number))
    np.random.default_rng(0).shuffle(texts)
    words, topics = zip(*texts, strict=True)
    return words, np.array(topics)


def counts_of(texts, vocabulary):
    """Return how often each text has each word of a vocabulary: (texts, words), sparse."""
    found = [
        (row, vocabulary[word], count)
        for row, words in enumerate(texts)
        for word, count in Counter(words).items()
        if word in vocabulary
    ]
    rows, columns, counts = np.array(found).T
    shape = len(texts), len(vocabulary)
    return scipy.sparse.csr_matrix((counts.astype(float), (rows, columns)), shape)


def main():
    texts, topics = load_texts()
    train, held_out = slice(None, len(texts) * 3 // 4), slice(len(texts) * 3 // 4, None)
    words = sorted({word for text in texts[train] for word in text})
    vocabulary = {word: number for number, word in enumerate(words)}
    learnt, unseen = (counts_of(texts[part], vocabulary) for part in (train, held_out))
    print(f"{learnt.shape[0]} texts, {learnt.shape[1]} words; {learnt.nnz} entries are not zero")

    def loss(beta, matrix):
        return -log_posterior(beta, matrix, topics[train]) / learnt.shape[0]

    @jax.jit
    def fit(matrix):
        start = jnp.zeros((len(words), len(TOPICS)))
        return by_optax(lambda beta: loss(beta, matrix), start)

    found = fit(BCSR.from_scipy_sparse(learnt))
    peer = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=10_000)
    expected = peer.fit(learnt, topics[train]).coef_.T
    print(f"Largest difference from scikit-learn: {np.max(np.abs(found - expected)):.1e}")
    np.testing.assert_allclose(found, expected, atol=1e-4)

    for number, name in enumerate(TOPICS):
        typical = np.argsort(-found[:, number])[:5]
        print(f"{name:8}", ", ".join(words[i] for i in typical))
    accuracy = np.mean(classify(found, unseen) == topics[held_out])
    print(f"Classified correctly: {accuracy:.1%} of {unseen.shape[0]} texts held out")
    return accuracy, np.asarray(found), np.array(words)


def plot(accuracy, coefficients, words):
    """Draw the words with the largest coefficients of each topic."""
    figure, axes = figures.subplots(1, len(TOPICS), size=(7, 2.8), sharex=True)
    for number, (name, column) in enumerate(zip(TOPICS, axes, strict=True)):
        largest = np.argsort(-coefficients[:, number])[:10]
        column.barh(words[largest], coefficients[largest, number], color=f"C{number}")
        column.invert_yaxis()
        column.set_title(f"scipy.{name}")
    figure.suptitle(f"Words that tell; {accuracy:.1%} of held-out texts are classified correctly")
    return figure


if __name__ == "__main__":
    figures.save(plot, *main())
