"""Names beside one that is not found."""

from fabric.core.texts.nearest import list_nearest


def test_a_few_names_are_all_listed_the_nearest_first():
    assert list_nearest("reserch-desk", ["billing", "research-desk", "reader"], "fabric list") == (
        "research-desk, reader, billing"
    )


def test_of_many_the_nearest_six_are_listed_and_the_rest_is_counted():
    names = [f"fabric-{n}" for n in range(33)] + ["research-desk"]
    said = list_nearest("reserch-desk", names, "fabric list")
    assert said.startswith("research-desk, ")
    assert said.endswith(" and 28 more: fabric list")
    assert said.count(", ") == 5
