"""What each public data set consists of, with the checksums of its contents."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CATALOGUE", "Item", "Source"]


@dataclass(frozen=True)
class Item:
    """One array or text of a data set, whatever file it is kept in.

    file    as its publisher names it, without .gz
    size    bytes of its content: the numbers without headers, or the text
    sha256  of that content, so compression and container do not matter
    also    other files that hold the same content; of an archive of arrays, the member after a
            colon
    """

    file: str
    size: int
    sha256: str
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """A data set as its publisher hands it out.

    folders    where its files lie below a folder of data sets: ours, torchvision's, Keras'
    addresses  folders on the network, tried in turn
    suffix     what a served file has after the item's name
    archive    the one file that is served in place of single ones
    megabytes  to be transferred
    needs      data sets that are looked for and fetched with it
    """

    name: str
    about: str
    licence: str
    items: tuple[Item, ...]
    folders: tuple[str, ...]
    addresses: tuple[str, ...]
    megabytes: float
    suffix: str = ""
    archive: str = ""
    needs: tuple[str, ...] = ()


_MNIST_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
_MNIST_SIZES = (47_040_000, 60_000, 7_840_000, 10_000)


def _grey(
    names: tuple[str, ...], sizes: tuple[int, ...], sums: tuple[str, ...], also: str = ""
) -> tuple[Item, ...]:
    members = ("x_train", "y_train", "x_test", "y_test")
    others = [(f"{also}:{member}",) if also else () for member in members]
    return tuple(Item(*facts) for facts in zip(names, sizes, sums, others, strict=True))


_SOURCES = (
    Source(
        "a9a",
        "incomes of 48,842 people as 123 yes-or-no features (LIBSVM's a9a, made of the Adult "
        "census data)",
        "none stated by LIBSVM; the Adult data it is made of are CC BY 4.0 (UCI)",
        (
            Item(
                "a9a", 2_329_875, "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906"
            ),
            Item(
                "a9a.t",
                1_164_628,
                "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9",
            ),
        ),
        ("a9a", "libsvm"),
        ("https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/",),
        3.5,
    ),
    Source(
        "cifar10",
        "60,000 colour photographs of 32 x 32 in 10 classes (Krizhevsky, 2009)",
        "none stated",
        # The content is that of the binary version: in each record the label, then 3 x 32 x 32
        # pixels.
        tuple(
            Item(f"{name}.bin", 30_730_000, digest, (name,))
            for name, digest in {
                "data_batch_1": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
                "data_batch_2": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
                "data_batch_3": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
                "data_batch_4": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
                "data_batch_5": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
                "test_batch": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
            }.items()
        ),
        (
            "cifar10",
            "cifar-10-batches-bin",
            "cifar-10-batches-py",
            "cifar-10-batches-py-target/cifar-10-batches-py",
            "cifar10/cifar-10-batches-bin",
            "cifar10/cifar-10-batches-py",
        ),
        ("https://www.cs.toronto.edu/~kriz/",),
        170.1,
        archive="cifar-10-binary.tar.gz",
    ),
    Source(
        "emnist-letters",
        "145,600 hand-written letters of 28 x 28 in 26 classes, large and small together (Cohen "
        "et al., 2017)",
        "none stated; made of NIST Special Database 19",
        _grey(
            tuple(f"emnist-letters-{name}".replace("t10k", "test") for name in _MNIST_FILES),
            (97_843_200, 124_800, 16_307_200, 20_800),
            (
                "646a62d291fdca003cb71d4bcad4a9115d98ec383c4cc9d79136e33f61f15465",
                "0d99903cfb9cfa946e8e96c93075e89b12c678328a2f4085c707533e4d93a43d",
                "55f757a8d913202b77feffe533be45ce225473b0e07fafd2232f12e4089b5b35",
                "062d118d0459ebc21715245cb2d003ea28c7af7420a1b42c1f0fa61f3afa4da4",
            ),
        ),
        ("emnist-letters", "EMNIST/raw", "EMNIST/raw/gzip", "emnist"),
        (
            "https://biometrics.nist.gov/cs_links/EMNIST/",
            "https://www.itl.nist.gov/iaui/vip/cs_links/EMNIST/",
        ),
        561.8,
        archive="gzip.zip",
    ),
    Source(
        "fashion-mnist",
        "70,000 grey images of clothes of 28 x 28 in 10 classes (Xiao, Rasul and Vollgraf, 2017)",
        "MIT",
        _grey(
            _MNIST_FILES,
            _MNIST_SIZES,
            (
                "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012",
                "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
                "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a",
                "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
            ),
        ),
        ("fashion-mnist", "FashionMNIST/raw"),
        (
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        ),
        30.9,
        suffix=".gz",
    ),
    Source(
        "heart-disease",
        "920 patients of four hospitals, 13 attributes, heart disease or not (Janosi, Steinbrunn, "
        "Pfisterer, Detrano)",
        "CC BY 4.0 (UCI); publications are asked to name the four investigators",
        (
            Item(
                "processed.cleveland.data",
                18_461,
                "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8",
            ),
            Item(
                "processed.hungarian.data",
                10_263,
                "d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796",
            ),
            Item(
                "processed.switzerland.data",
                4_109,
                "834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314",
            ),
            Item(
                "processed.va.data",
                6_737,
                "e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f",
            ),
        ),
        ("heart-disease", "heart+disease"),
        ("https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease/",),
        0.04,
    ),
    Source(
        "mnist",
        "70,000 hand-written digits of 28 x 28 (LeCun, Cortes and Burges)",
        "CC BY-SA 3.0",
        _grey(
            _MNIST_FILES,
            _MNIST_SIZES,
            (
                "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
                "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
                "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
                "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
            ),
            also="mnist.npz",
        ),
        ("mnist", "MNIST/raw"),
        (
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
        11.6,
        suffix=".gz",
    ),
    Source(
        "mnist-writers",
        "which of 539 people wrote each training digit of MNIST (QMNIST's labels; Yadav and "
        "Bottou, 2019)",
        "BSD 3-clause",
        (
            Item(
                "qmnist-train-labels-idx2-int",
                1_920_000,
                "69d38b36ac9b86f1b198ee9b2fa7434a2013be2947fc11b5d8a94beb36d9a1da",
            ),
        ),
        ("mnist-writers", "qmnist-writers", "QMNIST/raw"),
        ("https://raw.githubusercontent.com/facebookresearch/qmnist/master/",),
        0.5,
        suffix=".gz",
        needs=("mnist",),
    ),
    Source(
        "tinyshakespeare",
        "40,000 lines of Shakespeare's plays, 1,115,394 letters of 65 kinds (Karpathy, 2015)",
        "none stated; the plays are in the public domain",
        (
            Item(
                "input.txt",
                1_115_394,
                "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
            ),
        ),
        ("tinyshakespeare",),
        ("https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/",),
        1.1,
    ),
)

CATALOGUE: dict[str, Source] = {source.name: source for source in _SOURCES}
