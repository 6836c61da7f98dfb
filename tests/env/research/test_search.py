from __future__ import annotations

from mnemotune.data.research.generator import each_dossier
from mnemotune.data.research.material import installed
from mnemotune.data.research.task import Document, about, states
from mnemotune.env.research.search import SearchIndex, index_of


def test_the_document_with_the_rarest_words_of_the_query_comes_first() -> None:
    texts = ("the cat sat", "the cat and a heron", "herons fly over the long and wide river at night")
    index = SearchIndex([Document("", text) for text in texts])
    assert index.search("the heron's cat", most=3) == [1, 0, 2]
    assert index.search("heron", most=1) == [1]


def test_what_no_document_says_finds_nothing() -> None:
    assert SearchIndex([Document("", "the cat sat")]).search("zebra", most=3) == []
    assert SearchIndex([]).search("zebra", most=3) == []


def test_the_right_query_finds_the_supporting_document_of_every_hop() -> None:
    for task in each_dossier(installed(), count=5, seed=13):
        index = index_of(task.documents)
        for place, hop in enumerate(task.hops):
            turn = task.turns[hop.turn]
            found = index.search(about(turn.query, task.subject_of(place)), most=len(turn.documents))
            assert hop.claims[0].document in found


def test_a_near_miss_finds_its_own_document_which_says_something_else() -> None:
    for task in each_dossier(installed(), count=5, seed=17):
        index = index_of(task.documents)
        last = len(task.hops) - 1
        turn = task.turns[task.hops[last].turn]
        misses = {task.documents[place].title for place in turn.documents[:4]} - {task.subject_of(last)}
        for miss in misses:
            places = index.search(about(turn.query, miss), most=len(turn.documents))
            (own,) = [task.documents[place] for place in places if task.documents[place].title == miss]
            assert not own.supporting
            assert not states(own.text, task.answer)
