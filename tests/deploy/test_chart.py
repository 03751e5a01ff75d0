"""The chart, filled in: the few words of its templates are read here, since no Helm is at hand. `helm lint` and a cluster say more."""

import re

import pytest
import yaml

from tests.test_tidy import ROOT

CHART = ROOT / "deploy" / "chart"
_define = re.compile(r'{{- define "([\w.]+)" -}}\n(.*?)\n{{- end }}', re.DOTALL)
_loop = re.compile(r"\n *{{- (?:range|with) [^}]*}}(.*?)\n *{{- end }}", re.DOTALL)
_block = re.compile(r"[ \n]*{{- (?:include \"([\w.]+)\" \.|toYaml \.Values\.([\w.]+)) \| nindent (\d+) }}")
_word = re.compile(r"{{-? ?.*? ?}}")
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


def filled(name):
    """The documents of a template, with one turn of each loop and the word `x` for what is said elsewhere."""
    parts = dict(_define.findall((CHART / "templates" / "_names.tpl").read_text()))

    def block(found):
        part, path, width = found.groups()
        text = parts[part] if part else yaml.safe_dump(value(path)).rstrip()
        return "\n" + "\n".join(" " * int(width) + line if line else line for line in text.splitlines())

    text = _block.sub(block, (CHART / "templates" / f"{name}.yaml").read_text())
    text = _loop.sub(lambda found: found[1], text)
    return [one for one in yaml.safe_load_all(_word.sub("x", text)) if one]


def value(path):
    found = VALUES
    for part in path.split("."):
        found = found[part]
    return found


def pods():
    for name in ("web", "worker", "migrate"):
        for one in filled(name):
            if one["kind"] in ("Deployment", "Job"):
                yield name, one["spec"]["template"]["spec"]


def test_it_has_what_it_says_it_has():
    kinds = [(name, one["kind"]) for name in ("migrate", "web", "worker") for one in filled(name)]
    assert kinds == [
        ("migrate", "Job"),
        *(("web", kind) for kind in ("Deployment", "Service", "PodDisruptionBudget", "Ingress")),
        *(("worker", kind) for kind in ("Deployment", "PodDisruptionBudget")),
    ]


@pytest.mark.parametrize("name", ["web", "worker", "migrate"])
def test_a_pod_has_no_rights_and_its_mounts_are_there(name):
    pod = dict(pods())[name]
    (container,) = pod["containers"]
    assert container["args"] == [name]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}
    assert {one["mountPath"] for one in container["volumeMounts"]} == {"/data", "/tmp"}


@pytest.mark.parametrize("name", ["web", "worker"])
def test_what_stays_is_found_by_its_labels_and_has_requests(name):
    deployment = filled(name)[0]
    wanted = deployment["spec"]["selector"]["matchLabels"]
    assert wanted == deployment["spec"]["template"]["metadata"]["labels"]
    assert wanted["app.kubernetes.io/component"] == name
    (budget,) = [one for one in filled(name) if one["kind"] == "PodDisruptionBudget"]
    assert budget["spec"]["selector"]["matchLabels"] == wanted
    resources = deployment["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert set(resources["requests"]) == {"cpu", "memory"}
    assert "memory" in resources["limits"]


def test_probes_come_to_the_port_that_is_open():
    (container,) = dict(pods())["web"]["containers"]
    assert container["ports"] == [{"name": "http", "containerPort": 8420}]
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")}
    assert {name: one["path"] for name, one in probes.items()} == {
        "startup": "/readyz",
        "readiness": "/readyz",
        "liveness": "/livez",
    }
    assert {one["port"] for one in probes.values()} == {"http"}


def test_a_worker_is_asked_whether_it_beats():
    (container,) = dict(pods())["worker"]["containers"]
    assert [container[f"{name}Probe"]["exec"]["command"] for name in ("startup", "liveness")] == [
        ["/usr/local/bin/serve", "alive"]
    ] * 2
