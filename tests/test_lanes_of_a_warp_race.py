"""Lanes of a warp that do the same and access the same bytes: what nothing orders is not proved."""

import pytest
from ptx_text import asked, executed, kernel, launch, verdicts, wait

from sm90_verify.decide.ptx import OF_LANES
from sm90_verify.evidence.mutation.of_ptx import decide, to_edit
from sm90_verify.evidence.mutation.score import UNDECIDED
from sm90_verify.frontends.ptx.events import PeriodMarked
from sm90_verify.frontends.ptx.lane_races import lane_races
from sm90_verify.frontends.ptx.read import read_module

MINE = """
\tmov.u32 %r0, %tid.x;
\tmov.u32 %r1, smem;
\tshl.b32 %r2, %r0, 2;
\tadd.u32 %r2, %r2, %r1;
\tshl.b32 %r3, %r0, 4;
\tadd.u32 %r3, %r3, %r1;
\tadd.u32 %r4, %r1, 8192;
\tmov.u64 %d0, 4096;
"""
"""%r2: four bytes of each lane's own; %r3: sixteen; %r4: an mbarrier."""
STORES = "\n\tst.shared.u32 [%r2], %r0;"
ITS_NEIGHBOURS = "\n\txor.b32 %r5, %r2, 4;"
LOADS = f"{ITS_NEIGHBOURS}\n\tld.shared.u32 %r10, [%r5];"
COPIES = "\n\tcp.async.cg.shared.global [%r3], [%d0], 16;"
LOADS_OTHERS = "\n\txor.b32 %r5, %r3, 16;\n\tld.shared.u32 %r10, [%r5];"
READS_MATRICES = "\n\tldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10,%r11,%r12,%r13}, [%r3];"
WRITES_MATRICES = "\n\tstmatrix.sync.aligned.m8n8.x4.shared.b16 [%r3], {%r10,%r11,%r12,%r13};"
TURNED = READS_MATRICES.replace("x4.", "x4.trans.")
WAITS_ALL = "\n\tcp.async.wait_all;"
MEETS = "\n\tbar.warp.sync 0xffffffff;"
INITS = """
\tsetp.eq.u32 %p0, %r0, 0;
\t@%p0 mbarrier.init.shared.b64 [%r4], 32;
\tbar.sync 0;"""
ARRIVES = "\n\tmbarrier.arrive.shared.b64 _, [%r4];"
WAITS = wait("%r4", 0)
SHUFFLES = "\n\tshfl.sync.idx.b32 %r11, %r0, 0, 31, 0xffffffff;"

FOLLOWED = (
    "\n\tst.shared.u32 [%r2+4096], %r0;\n\tld.shared.u32 %r6, [%r2+4096];"
    "\n\tand.b32 %r6, %r6, 4;\n\tadd.u32 %r6, %r6, %r1;\n\tld.shared.u32 %r7, [%r6+5120];"
)
"""What is in shared memory is an address."""


def lines_of(body, *found):
    """The lines at which instructions stand."""
    return [next(at for at, line in enumerate(kernel(body).split("\n"), 1) if one in line) for one in found]


def pairs(body, threads=32, **fields):
    return lane_races(executed(kernel(body), launch(threads, **fields)))


def test_one_lane_stores_what_its_neighbour_loads(tmp_path):
    body = MINE + STORES + LOADS
    result = asked(tmp_path, kernel(body), launch())
    assert result.verdict == "undetermined"
    race = next(one for one in result.findings if one.id == "race")
    store, load = lines_of(body, "st.shared", "ld.shared")
    assert race.note == (
        "lanes of a warp access the same bytes, and nothing orders them: "
        f"line {store} writes, line {load} reads: put bar.warp.sync between"
    )
    assert verdicts(result)["deadlock"] == "proved"


FORMS = {
    "store, load": STORES + LOADS,
    "load, store": LOADS + STORES,
    "one instruction": "\n\tshr.u32 %r5, %r0, 1;\n\tmad.lo.u32 %r5, %r5, 4, %r1;\n\tst.shared.u32 [%r5], %r0;",
    "two stores": f"{STORES}{ITS_NEIGHBOURS}\n\tst.shared.u32 [%r5], %r0;",
    "half a word": f"{STORES}{ITS_NEIGHBOURS}\n\tld.shared.u16 %h1, [%r5+2];",
    "cp.async, load": COPIES + WAITS_ALL + LOADS_OTHERS,
    "load, cp.async": LOADS_OTHERS + COPIES,
    "cp.async, ldmatrix": COPIES + WAITS_ALL + READS_MATRICES,
    "stmatrix, load": WRITES_MATRICES + LOADS_OTHERS,
    "stmatrix, ldmatrix.trans": WRITES_MATRICES + TURNED,
    "cp.async below a store": f"{COPIES}\n\tst.shared.u32 [%r3], %r0;{MEETS}{WAITS_ALL}{LOADS_OTHERS}",
    "weak, then strong": f"""{STORES}
\tst.volatile.shared.u32 [%r2], %r0;{ITS_NEIGHBOURS}
\tld.volatile.shared.u32 %r10, [%r5];""",
    "another value before": f"{STORES}\n\tmov.u32 %r5, 7;\n\tst.shared.u32 [%r1], %r5;{FOLLOWED}",
    "one is strong": f"\n\tst.volatile.shared.u32 [%r2], %r0;{LOADS}",
    "a shuffle between": STORES + SHUFFLES + LOADS,
    "a wait without an arrival": f"{INITS}{ARRIVES}{STORES}{WAITS}{LOADS}",
    "before bar.warp.sync, cp.async": COPIES + MEETS + WAITS_ALL + LOADS_OTHERS,
    "one group too many": f"{COPIES}\n\tcp.async.commit_group;\n\tcp.async.wait_group 1;{MEETS}{LOADS_OTHERS}",
    "a cluster that arrives relaxed": f"""{STORES}
\tbarrier.cluster.arrive.relaxed.aligned;
\tbarrier.cluster.wait.aligned;{LOADS}""",
    "a later store": STORES + MEETS + STORES + LOADS,
}


@pytest.mark.parametrize("form", FORMS)
def test_it_is_found(tmp_path, form):
    assert pairs(MINE + FORMS[form])
    result = asked(tmp_path, kernel(MINE + FORMS[form]), launch())
    assert verdicts(result)["race"] != "proved"


CLEARS = {
    "bar.warp.sync": MEETS,
    "bar.sync": "\n\tbar.sync 0;",
    "bar.sync of some": "\n\tbar.sync 1, 32;",
    "an mbarrier": ARRIVES + WAITS,
    "a cluster": "\n\tbarrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;",
}


@pytest.mark.parametrize("clears", CLEARS)
@pytest.mark.parametrize(("first", "second"), [(STORES, LOADS), (LOADS, STORES), (COPIES + WAITS_ALL, LOADS_OTHERS)])
def test_what_orders_lanes_clears_it(tmp_path, clears, first, second):
    assert pairs(MINE + INITS + first + second)
    body = MINE + INITS + first + CLEARS[clears] + second
    assert not pairs(body)
    assert asked(tmp_path, kernel(body), launch()).verdict == "proved"


def test_an_mbarrier_that_cp_async_arrives_at_clears_it(tmp_path):
    triggers = "\n\tcp.async.mbarrier.arrive.noinc.shared.b64 [%r4];"
    body = MINE + INITS + COPIES + triggers + WAITS + LOADS_OTHERS
    assert not pairs(body)
    assert asked(tmp_path, kernel(body), launch()).verdict == "proved"
    assert pairs(body.replace(triggers, ARRIVES))


HALVES = """
\tsetp.lt.u32 %p1, %r0, 16;
\t@%p1 bra LOW;
\tbar.warp.sync 0xffff0000;
\tbra BOTH;
LOW:
\tbar.warp.sync 0xffff;
BOTH:"""


def test_halves_that_meet_apart_are_ordered_within_themselves():
    across = "\n\txor.b32 %r5, %r2, 64;\n\tld.shared.u32 %r10, [%r5];"
    assert not pairs(MINE + STORES + HALVES + LOADS)
    assert pairs(MINE + STORES + HALVES + across)
    assert not pairs(MINE + STORES + HALVES + MEETS + across)
    assert pairs(MINE + STORES + HALVES + STORES + LOADS)


RIGHT = {
    "bytes of their own": f"{STORES}\n\tld.shared.u32 %r10, [%r2];",
    "half words side by side": "\n\tshl.b32 %r5, %r0, 1;\n\tadd.u32 %r5, %r5, %r1;\n\tst.shared.u16 [%r5], %h0;",
    "all read": "\n\tld.shared.u32 %r10, [%r1];\n\tld.shared.u32 %r11, [%r1];",
    "both are strong": f"""
\tst.volatile.shared.u32 [%r2], %r0;{ITS_NEIGHBOURS}
\tld.volatile.shared.u32 %r10, [%r5];""",
    "atomics": "\n\tred.shared.add.u32 [%r1], %r0;",
    "the same value": "\n\tmov.u32 %r5, 7;\n\tst.shared.u32 [%r1], %r5;\n\tld.shared.u32 %r6, [%r1];"
    "\n\tand.b32 %r6, %r6, 4;\n\tadd.u32 %r6, %r6, %r1;\n\tld.shared.u32 %r7, [%r6+4096];",
    "its place in a matrix": f"{WRITES_MATRICES}\n\tld.shared.u32 %r5, [%r2];",
    "matrices of its own": WRITES_MATRICES + READS_MATRICES,
    "turned matrices of its own": WRITES_MATRICES.replace("x4.", "x4.trans.") + TURNED,
    "rows of its own": "\n\tst.shared.v4.u32 [%r3], {%r0,%r0,%r0,%r0};\n\tld.shared.v4.u32 {%r5,%r6,%r7,%r8}, [%r3];",
}


@pytest.mark.parametrize("form", RIGHT)
def test_it_is_not_found(form):
    assert not pairs(MINE + RIGHT[form])


def test_different_values_are_found():
    assert pairs(MINE + RIGHT["the same value"].replace("mov.u32 %r5, 7", "shl.b32 %r5, %r0, 2"))


def test_lanes_of_two_roles_are_left_to_the_engines(tmp_path):
    """Lane 0 stores, the others load."""
    roles = "\n\tsetp.eq.u32 %p0, %r0, 0;\n\t@%p0 st.shared.u32 [%r1], %r0;\n\t@!%p0 ld.shared.u32 %r10, [%r1];"
    assert not pairs(MINE + roles)
    assert verdicts(asked(tmp_path, kernel(MINE + roles), launch()))["race"] == "violated"


def test_a_race_that_is_violated_stays(tmp_path):
    roles = "\n\tshr.u32 %r9, %r0, 5;\n\tsetp.eq.u32 %p0, %r9, 0;\n\t@%p0 st.shared.u32 [%r1], %r0;"
    body = MINE + STORES + LOADS + roles + "\n\t@!%p0 ld.shared.u32 %r10, [%r1];"
    assert verdicts(asked(tmp_path, kernel(body), launch(64)))["race"] == "violated"


def test_all_ctas_of_a_cluster_are_looked_at():
    """Lanes of one warp store to the shared memory of the other CTA."""
    remote = "\n\tmapa.shared::cluster.u32 %r6, %r1, 1;\n\tst.shared::cluster.u32 [%r6], %r0;"
    second = "\n\tmov.u32 %r6, %cluster_ctarank;\n\tsetp.eq.u32 %p2, %r6, 1;\n\t@!%p2 bra OVER;"
    fields = {"grid": [2, 1, 1], "cluster": [2, 1, 1]}
    assert pairs(MINE + remote, **fields)
    assert pairs(MINE + second + STORES + LOADS + "\nOVER:", **fields)
    assert not pairs(MINE + second + STORES + MEETS + LOADS + "\nOVER:", **fields)


def test_the_same_address_in_two_ctas_is_not_the_same_bytes():
    """Each lane stores at home, and its neighbour's address in the other CTA."""
    other = "\n\tmov.u32 %r6, %cluster_ctarank;\n\txor.b32 %r6, %r6, 1;\n\tmapa.shared::cluster.u32 %r6, %r5, %r6;"
    remote = ITS_NEIGHBOURS + other + "\n\tst.shared::cluster.u32 [%r6], %r0;"
    fields = {"grid": [2, 1, 1], "cluster": [2, 1, 1]}
    assert not pairs(MINE + STORES + remote, **fields)
    assert pairs(MINE + STORES + remote.replace("xor.b32 %r6, %r6, 1", "xor.b32 %r6, %r6, 0"), **fields)


def test_a_period_stands_for_several():
    """In the next one lanes store again what others have loaded."""
    run = executed(kernel(MINE + STORES + MEETS + LOADS), launch())
    (warp,) = run.cluster.ctas[0].warps
    assert not lane_races(run)
    one = warp.events[0]
    warp.events[:0] = [one._replace(what=PeriodMarked(True))]
    warp.events.append(one._replace(what=PeriodMarked(False)))
    assert [(one.first_writes, one.second_writes) for one in lane_races(run)] == [(False, True)]


# ---------------------------------------------------------------- the other questions


@pytest.mark.parametrize("loads", [LOADS, ""])
def test_what_orders_lanes_is_not_redundant(tmp_path, loads):
    body = MINE + STORES + "\n\tbar.sync 0;" + loads
    found = asked(tmp_path, kernel(body), launch(), redundancy=True).redundant
    assert [one.line for one in found] == ([] if loads else lines_of(body, "bar.sync"))


@pytest.mark.parametrize("others", [LOADS, "\n\tld.shared.u32 %r10, [%r2];"])
def test_no_more_is_a_bar_warp_sync_that_roles_do_without(tmp_path, others):
    alone = "\n\tsetp.eq.u32 %p0, %r0, 0;\n\t@%p0 st.shared.u32 [%r1+4096], %r0;"
    body = MINE + alone + STORES + MEETS + others
    found = asked(tmp_path, kernel(body), launch(), redundancy=True).redundant
    meets = lines_of(body, "bar.warp.sync")
    assert [one.line for one in found] == (meets if others != LOADS else [])


ROUNDS = f"""{MINE}
\tld.param.u32 %r20, [n];
\tmov.u32 %r21, 0;
NEXT:
\tsetp.ge.u32 %p4, %r21, %r20;
\t@%p4 bra OVER;{STORES}{MEETS}{LOADS}{MEETS}
\tadd.u32 %r21, %r21, 1;
\tbra NEXT;
OVER:"""


@pytest.mark.parametrize("sweep", ["n=0..3", "n=0.."])
def test_a_sweep_sees_it(tmp_path, sweep):
    text = kernel(ROUNDS, ".param .u32 n")
    assert asked(tmp_path, text, launch(), sweep=sweep).verdict == "proved"
    twice = text.replace(LOADS + MEETS, LOADS)
    assert twice != text
    assert asked(tmp_path, twice, launch(), sweep=sweep).verdict == "undetermined"


def test_an_edit_that_leaves_out_bar_warp_sync_does_not_survive(tmp_path):
    path = tmp_path / "k.ptx"
    path.write_text(kernel(MINE + STORES + MEETS + LOADS))
    edited = to_edit(read_module(str(path)), path.read_text(), launch())
    (number,) = (at for at, one in enumerate(edited.edits) if one.operator == "drop")
    outcome = decide(edited, number)
    assert outcome.verdict == UNDECIDED and "bar.warp.sync" in outcome.reason


def test_what_is_written_down_says_that_it_is_not_seen(tmp_path):
    out = tmp_path / "emitted.py"
    for between, said in (("", True), (MEETS, False)):
        asked(tmp_path, kernel(MINE + STORES + between + LOADS), launch(), emit=str(out))
        assert (OF_LANES in " ".join(out.read_text().split())) == said
