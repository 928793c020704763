"""What `jaxprgen.runtime.collectives` reads from the text of compiled modules."""

import pytest

from jaxprgen.runtime.collectives import Cause, collectives_in

MESH = {"data": 4, "model": 2}
HEAD = "HloModule jit_f, is_scheduled=true, num_partitions=8\n\n"


def entry(*instructions):
    """The text of a module with these instructions."""
    lines = (f"  {line}\n" for line in instructions)
    return f"{HEAD}ENTRY %main.1_spmd (p: f64[4]) -> f64[4] {{\n{''.join(lines)}}}\n"


def one(*instructions, names=()):
    (found,) = collectives_in(entry(*instructions), MESH, names)
    return found


@pytest.mark.parametrize(
    ("shape", "nbytes"),
    [
        ("f64[]", 8),
        ("f64[3,2]{1,0}", 48),
        ("pred[5]{0}", 5),
        ("bf16[3]{0}", 6),
        ("c64[3]{0}", 24),
        ("c128[2]{0}", 32),
        ("f8e4m3fn[7]{0}", 7),
        ("u4[3]{0:E(4)}", 2),
        ("s64[0]{0}", 0),
        ("f32[<=6,2]{1,0}", 48),
        ("f32[8,128]{1,0:T(8,128)S(1)}", 4096),
        ("(f64[], f32[5]{0}, /*index=2*/pred[2,3]{1,0})", 34),
        ("(bf16[2]{0:T(2)(2,1)}, token[])", 4),
    ],
)
def test_bytes_are_those_of_all_arrays(shape, nbytes):
    assert one(f"%x = {shape} all-reduce(%a, %b), replica_groups={{}}").nbytes == nbytes


@pytest.mark.parametrize(
    ("groups", "devices", "axes"),
    [
        ("{}", 8, ("data", "model")),
        ("{{0,1,2,3,4,5,6,7}}", 8, ("data", "model")),
        ("{{0,2,4,6},{1,3,5,7}}", 4, ("data",)),
        ("{{0,1},{2,3},{4,5},{6,7}}", 2, ("model",)),
        ("{{0,4},{1,5},{2,6},{3,7}}", 2, ("data",)),
        ("[1,8]<=[8]", 8, ("data", "model")),
        ("[4,2]<=[8]", 2, ("model",)),
        ("[2,4]<=[4,2]T(1,0)", 4, ("data",)),
        ("mesh['data'=4,'model'=2] {'model'}", 2, ("model",)),
        ("mesh['axis_0'=4,'axis_1'=2] {'axis_0'}", 4, ("data",)),
        ("mesh['axis_0'=8] {'axis_0'}", 8, ("data", "model")),
        ("mesh['axis_0'=8] {'axis_0':(1)4}", 4, ("data",)),
        ("mesh['axis_0'=8] {'axis_0':(4)2}", 2, ("model",)),
        ("mesh['axis_0'=4,'axis_1'=2] {'axis_0':(2)2,'axis_1'}", 4, ("data", "model")),
    ],
)
def test_groups_of_devices_lie_along_axes_of_the_mesh(groups, devices, axes):
    found = one(f"%x = f64[4]{{0}} all-reduce(%a), channel_id=1, replica_groups={groups}, use=true")
    assert (found.devices, found.axes) == (devices, axes)
    assert found.along == f"{','.join(axes)}={devices}"


def test_without_a_mesh_there_is_a_number_of_devices():
    text = entry("%x = f64[4]{0} all-reduce(%a), replica_groups={{0,1,2,3},{4,5,6,7}}")
    (found,) = collectives_in(text, {})
    assert (found.axes, found.along) == ((), "4 devices")


def test_a_permutation_goes_along_the_axes_that_its_pairs_cross():
    pairs = "source_target_pairs={{2,0},{3,1},{4,2},{5,3},{6,4},{7,5}}"
    found = one(f"%x = f64[1]{{0}} collective-permute(%a), channel_id=1, {pairs}")
    assert (found.kind, found.nbytes) == ("collective-permute", 8)
    assert (found.axes, found.devices) == (("data",), 4)


def test_the_larger_side_counts():
    whole = "replica_groups=[1,8]<=[8], dimensions={0}"
    gather = one(f"%x = f64[32]{{0}} all-gather(%a), {whole}")
    scatter = one(f"%x = f64[4]{{0}} reduce-scatter(%a), {whole}, to_apply=%add")
    assert gather.nbytes == scatter.nbytes == 256


@pytest.mark.parametrize(
    ("kind", "started", "nbytes"),
    [
        ("all-reduce", "f32[4]{0}", 16),
        ("all-gather", "(f32[4]{0}, f32[16]{0})", 64),
        ("collective-permute", "(f32[4]{0}, f32[4]{0}, u32[], u32[])", 16),
        ("reduce-scatter", "((f32[16]{0}), f32[4]{0})", 64),
    ],
)
def test_the_halves_of_an_asynchronous_one_count_once(kind, started, nbytes):
    result = "f32[16]{0}" if kind == "all-gather" else "f32[4]{0}"
    found = one(
        f"%{kind}-start = {started} {kind}-start(%a), replica_groups=[2,4]<=[4,2]T(1,0)",
        f"%{kind}-done = {result} {kind}-done(%{kind}-start)",
    )
    if kind == "collective-permute":
        assert (found.kind, found.nbytes) == (kind, nbytes)
    else:
        assert (found.kind, found.nbytes, found.along) == (kind, nbytes, "data=4")


def test_an_asynchronous_call_counts_as_what_it_calls():
    text = f"""{HEAD}%async (p: f32[8]) -> f32[8] {{
  %p = f32[8]{{0}} parameter(0)
  ROOT %swap = f32[8]{{0}} all-to-all(%p), replica_groups={{{{0,1}},{{2,3}}}}, dimensions={{0}}
}}

ENTRY %main (a: f32[8]) -> f32[8] {{
  %start = ((f32[8]{{0}}), f32[8]{{0}}) async-start(%a), calls=%async
  ROOT %done = f32[8]{{0}} async-done(%start)
}}
"""
    (found,) = collectives_in(text, {})
    assert (found.kind, found.nbytes, found.devices) == ("all-to-all", 32, 2)


def test_what_the_body_of_a_loop_calls_happens_in_each_step():
    text = f"""{HEAD}%inner (p: f64[]) -> f64[] {{
  ROOT %deep = f64[] all-reduce(%p), replica_groups={{}}, to_apply=%add
}}

%body (p: (f64[])) -> (f64[]) {{
  %c = f64[] conditional(%q, %x, %x), branch_computations={{%other, %inner}}
}}

%condition (p: (f64[])) -> pred[] {{
  %any = pred[] all-reduce(%p), replica_groups={{}}, to_apply=%or
}}

ENTRY %main (a: f64[]) -> f64[] {{
  %w = (f64[]) while(%t), condition=%condition, body=%body
  ROOT %last = f64[2]{{0}} all-reduce(%a), replica_groups={{}}, to_apply=%add
}}
"""
    found = {c.nbytes: c.per_step for c in collectives_in(text, {})}
    assert found == {8: True, 1: True, 16: False}


STACK = """FileNames
1 "/home/user/model.py"
2 "/home/user/other.py"

FunctionNames
1 "<module>"

FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=0 end_column=0}
2 {file_name_id=2 function_name_id=1 line=70 end_line=70 column=0 end_column=0}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=1}


"""


def test_names_and_lines_come_from_the_metadata():
    whole = "replica_groups={}, to_apply=%add"
    line = 'source_file="/home/user/model.py" source_line=3 source_end_line=3'
    found = one(
        f'%x = f64[] all-reduce(%a), {whole}, metadata={{op_name="jit(f)/jit(f)/eta/add" {line}}}',
        names={"eta", "e", "jit(f)"},
    )
    assert found.causes == (Cause("eta", "/home/user/model.py:3"),)
    metadata = 'metadata={op_name="jit(f)/eta/while/body/a/b/add" stack_frame_id=2}'
    text = entry(f"%x = f64[] all-reduce(%a), {whole}, {metadata}").replace(HEAD, HEAD + STACK)
    (found,) = collectives_in(text, MESH, {"eta", "a", "a/b"})
    assert found.causes == (Cause("a/b", "/home/user/other.py:70"),)
    assert collectives_in(text, MESH)[0].causes == (Cause("", "/home/user/other.py:70"),)


def test_each_part_of_a_combined_one_has_its_cause():
    found = one(
        "%all = (f64[], f64[5]{0}) all-reduce(%a, %b), replica_groups={}, to_apply=%add, "
        'metadata={op_name="jit(f)/(y/reduce_sum:beta/dot)"}',
        '%x = f64[] get-tuple-element(%all), index=0, metadata={op_name="jit(f)/y/reduce_sum"}',
        '%z = f64[5]{0} get-tuple-element(%all), index=1, metadata={op_name="jit(f)/beta/dot"}',
        names={"y", "beta"},
    )
    assert found.nbytes == 48
    assert found.causes == (Cause("y", ""), Cause("beta", ""))
    found = one(
        '%a = f64[] reduce(%p, %0), dimensions={0}, metadata={op_name="jit(f)/y/reduce_sum"}',
        "%b = f64[5]{0} bitcast(%c)",
        '%c = f64[5,1]{1,0} dot(%p, %q), metadata={op_name="jit(f)/beta/dot"}',
        "ROOT %all = (f64[], f64[5]{0}) all-reduce(%a, %b), replica_groups={}, to_apply=%add",
        names={"y", "beta"},
    )
    assert found.causes == (Cause("y", ""), Cause("beta", ""))


def test_without_metadata_the_cause_is_what_is_exchanged():
    found = one(
        '%a = f64[4]{0} fusion(%p), kind=kLoop, calls=%f, metadata={op_name="jit(f)/x/pad"}',
        "%b = f64[4]{0} copy(%a)",
        "%x = f64[32]{0} all-gather(%b), replica_groups={}, dimensions={0}",
        names={"x"},
    )
    assert found.causes == (Cause("x", ""),)
    assert one("%x = f64[] all-reduce(%x), replica_groups={}").causes == (Cause("", ""),)


def test_names_of_instructions_and_of_variables_are_no_collectives():
    text = entry(
        "%all-reduce.1 = f64[4]{0} parameter(0)",
        '%y = f64[4]{0} add(%all-reduce.1, %p), metadata={op_name="f/ all-reduce(%x)/add"}',
        "ROOT %all-gather = (f64[4]{0}) tuple(%y)",
    )
    assert collectives_in(text, MESH) == ()
