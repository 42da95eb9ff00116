"""A ring between a warp that copies and a warp that reads, in PTX, with the number of tiles as a parameter."""

from __future__ import annotations

from ptx_text import kernel, wait

STAGES = 2
SETUP = """
	mov.u32 %r0, %tid.x;
	setp.ne.u32 %p0, %r0, 0;
	@%p0 bra READY;
	mbarrier.init.shared.b64 [smem], 1;
	mbarrier.init.shared.b64 [smem+8], 1;
	mbarrier.init.shared.b64 [smem+64], 32;
	mbarrier.init.shared.b64 [smem+72], 32;
	fence.mbarrier_init.release.cluster;
READY:
	bar.sync 0;
	ld.param.u32 %r10, [n];
	mov.u32 %r1, 0;
	mov.u32 %r2, 0;
	mov.u32 %r3, 0;
	setp.ge.u32 %p1, %r0, 32;
	@%p1 bra CONSUMER;
	setp.ne.u32 %p2, %r0, 0;
	@%p2 bra DONE;
"""
STEP = """
	add.u32 %r3, %r3, 1;
	setp.ne.u32 %p4, %r3, 2;
	@%p4 bra SAME{name};
	mov.u32 %r3, 0;
	xor.b32 %r2, %r2, 1;
SAME{name}:
	add.u32 %r1, %r1, 1;
"""
COPY = """
	mov.u32 %r5, smem;
	shl.b32 %r6, %r3, 3;
	add.u32 %r6, %r6, %r5;
	shl.b32 %r7, %r3, 10;
	add.u32 %r7, %r7, %r5;
	xor.b32 %r8, %r2, 1;
{first}
	mbarrier.arrive.expect_tx.shared.b64 _, [%r6], 1024;
	cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r7+1024], [%d0], 1024, [%r6];
"""
READ = """
	mov.u32 %r5, smem;
	shl.b32 %r6, %r3, 3;
	add.u32 %r6, %r6, %r5;
	shl.b32 %r7, %r3, 10;
	add.u32 %r7, %r7, %r5;
{first}
	ld.shared.b32 %r9, [%r7+1024];
{last}
"""


def ring(
    *,
    copying: str = "",
    copied: str = "",
    reading: str = "",
    release: str = "",
    limits: tuple[str, str] = ("%r10", "%r10"),
) -> str:
    """The kernel. copying, reading: instructions at the start of an iteration; copied: at the end of the producer's;
    release: instead of the arrival of the consumer; limits: what the producer and the consumer compare k (%r1) with.
    """
    copy = COPY.format(first=wait("%r6+64", "%r8"))
    read = READ.format(first=wait("%r6", "%r2"), last=release or "mbarrier.arrive.shared.b64 _, [%r6+64];")
    return kernel(
        f"""{SETUP}
PRODUCE:
	setp.ge.u32 %p3, %r1, {limits[0]};
	@%p3 bra DONE;
{copying}{copy}{copied}{STEP.format(name="P")}
	bra PRODUCE;
CONSUMER:
	setp.ge.u32 %p3, %r1, {limits[1]};
	@%p3 bra DONE;
{reading}{read}{STEP.format(name="C")}
	bra CONSUMER;
DONE:
""",
        ".param .u32 n",
    )
