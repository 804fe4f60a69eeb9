"""The compiler flags that a candidate may use: those that control optimization, not those that load
code or name files.

Flags that are not listed are refused, because compilers load plug-ins, specifications, programs and
response files by flags with many names (-fplugin=, -specs=, -B, -wrapper, @file, -Xclang -load,
-Wl,…; nvcc: -ccbin, -Xcompiler, -optf). Names are those of GCC 12 to 15 ("Options That Control
Optimization", "x86 Options", "AArch64 Options"), clang 19, NVRTC and nvcc 13.
"""

from __future__ import annotations

import re

ACCEPTED = {
    "cpp": (
        "-O0 to -O3, -Os, -Ofast; -march=, -mtune=, -mcpu= and instruction sets (-mavx2, "
        "-mno-avx512f, -mprefer-vector-width=512); -f with an optimization, a floating-point or "
        "a language option (-ffast-math, -fno-math-errno, -funroll-loops, "
        "-ffp-contract=off, -fopenmp-simd); -std=; -DNAME=VALUE, -UNAME; --param=NAME=NUMBER; "
        "warnings (-Wall, -Wno-unused); -g; -lm, -lmvec, -lgomp, -lpthread, -latomic"
    ),
    "cuda": (
        "--use_fast_math, --ftz=, --prec-div=, --prec-sqrt=, --fmad=; --maxrregcount=64; -O0 to "
        "-O3; -std=; -DNAME=VALUE, -UNAME; --restrict, --extra-device-vectorization, "
        "--expt-relaxed-constexpr, --extended-lambda; -lineinfo; -arch=sm_…; --ptxas-options= with "
        "-v, -O3, -dlcm=cg and the like; --diag-suppress=, -Wno-…, -w"
    ),
}  # as shown to users

_FLAG_OF = """
    aggressive-loop-optimizations align-functions align-jumps align-labels align-loops
    allocation-dce allow-store-data-races approx-func associative-math asynchronous-unwind-tables
    auto-inc-dec bit-tests branch-count-reg builtin char8_t code-hoisting combine-stack-adjustments
    common compare-elim concepts conserve-stack coroutines cprop-registers crossjumping
    cse-follow-jumps cx-fortran-rules cx-limited-range data-sections dce defer-pop
    delete-null-pointer-checks devirtualize devirtualize-speculatively dse early-inlining
    elide-constructors exceptions expensive-optimizations ext-numeric-literals fast-math
    finite-loops finite-math-only float-store fold-simple-inlines forward-propagate
    fp-int-builtin-inexact freestanding function-cse function-sections gcse gcse-after-reload
    gcse-las gcse-lm gcse-sm gnu-keywords gnu-unique graphite graphite-identity
    guess-branch-probability hoist-adjacent-loads honor-infinities honor-nans if-conversion
    if-conversion2 implicit-templates indirect-inlining inline inline-atomics inline-functions
    inline-functions-called-once inline-small-functions ira-hoist-pressure ira-loop-pressure
    ira-share-save-slots ira-share-spill-slots isolate-erroneous-paths-attribute
    isolate-erroneous-paths-dereference ivopts jump-tables keep-inline-functions lifetime-dse
    live-range-shrinkage loop-interchange loop-nest-optimize loop-parallelize-all
    loop-unroll-and-jam lra-remat lto math-errno merge-all-constants merge-constants modulo-sched
    modulo-sched-allow-regmoves move-loop-invariants move-loop-stores ms-extensions
    non-call-exceptions nothrow-opt omit-frame-pointer openmp openmp-simd optimize-sibling-calls
    optimize-strlen partial-inlining peel-loops peephole peephole2 permissive pic PIC plt
    predictive-commoning prefetch-loop-arrays protect-parens reciprocal-math ree rename-registers
    reorder-blocks reorder-blocks-and-partition reorder-functions rerun-cse-after-loop
    reschedule-modulo-scheduled-loops rounding-math rtti schedule-fusion schedule-insns
    schedule-insns2 section-anchors sel-sched-pipelining sel-sched-pipelining-outer-loops
    selective-scheduling selective-scheduling2 semantic-interposition shrink-wrap
    shrink-wrap-separate signaling-nans signed-char signed-zeros single-precision-constant
    sized-deallocation slp-vectorize split-ivs-in-unroller split-loops split-paths split-wide-types
    split-wide-types-early ssa-backprop ssa-phiopt stack-clash-protection stack-protector stdarg-opt
    store-merging strict-aliasing strict-enums strict-float-cast-overflow strict-overflow
    strict-return strict-volatile-bitfields thread-jumps threadsafe-statics toplevel-reorder tracer
    trapping-math trapv unroll-all-loops unroll-loops unsafe-math-optimizations unsigned-char
    unswitch-loops unwind-tables variable-expansion-in-unroller vectorize version-loops-for-strides
    visibility-inlines-hidden vpt web wrapv wrapv-pointer
"""
_SETS = """
    3dnow abm adx aes avx\\w* bmi2? cx16 crc32 evex512 f16c fma4? fsgsbase gfni lzcnt movbe
    movdir64b movdiri mmx pclmul pku popcnt prefetchwt1 prfchw recip rdrnd rdseed rtm sahf sha
    sha512 sm3 sm4 sse ss?se3 sse2 sse4 sse4\\.[12] sse4a tbm vaes vpclmulqdq vzeroupper waitpkg xop
    xsave\\w* amx-\\w+ daz-ftz outline-atomics red-zone omit-leaf-frame-pointer unaligned-access
    strict-align fpret-in-387 general-regs-only
"""


def _any(words: str) -> str:
    return "|".join(words.split())


_MACRO = r"-D\w+(=[^\0\n]{0,200})?|-U\w+"
_WARNING = r"-w|-W(?![alp]$)(no-)?[a-z][a-z0-9+-]*(=\w+)?|-pedantic(-errors)?"
_PTXAS = (
    r"(-v|--verbose|--?O[0-4]|--opt-level=[0-4]|--?d[ls]cm=c[acgsv]|"
    r"--def-(load|store)-cache=c[acgsv]|--?warn-[a-z-]{1,60}|"
    r"--allow-expensive-optimizations=(true|false)|--register-usage-level=\d\d?)"
)
_PATTERNS = {
    "cpp": (
        r"-O([0123sgz]|fast)?",
        r"-std=(c|gnu)\+\+\w\w",
        r"-stdlib=lib(std)?c\+\+",
        _MACRO,
        _WARNING,
        r"-m(arch|tune|cpu)=[\w.+-]{1,80}",
        rf"-m(no-)?({_any(_SETS)})",
        (
            r"-m(prefer-vector-width|move-max|store-max|branch-cost|sve-vector-bits|fpmath|recip|"
            r"align-data|stringop-strategy|memcpy-strategy|memset-strategy|"
            r"tune-ctrl|asm)=[\w!,:+^-]{1,80}"
        ),
        r"-m64",
        rf"-f(no-)?({_any(_FLAG_OF)})",
        r"-f(no-)?(tree|ipa|sched)-[a-z0-9-]+|-ftree-parallelize-loops=\d+",
        r"-f(no-)?builtin-\w+",
        (
            r"-f(align-(functions|jumps|labels|loops)|inline-limit|max-errors|template-depth|"
            r"constexpr-(depth|loop-limit|ops-limit)|lifetime-dse)=[\d:]+"
        ),
        (
            r"-f(fp-contract|fp-model|fp-eval-method|vect-cost-model|simd-cost-model|"
            r"excess-precision|denormal-math|denormal-fp-math|visibility|stack-reuse|"
            r"veclib|cf-protection|complex-arithmetic|ira-algorithm|ira-region|"
            r"reorder-blocks-algorithm|trivial-auto-var-init)=[\w,-]{1,40}"
        ),
        r"-fopt-info(-[a-z]+)*",  # its output goes to the log
        r"-R(pass|pass-missed|pass-analysis)=[\w-]{1,40}",
        r"-ffp-exception-behavior=\w+",
        r"--param=[a-z0-9-]{1,60}=\d{1,9}",
        r"-g([0-3]|gdb[0-3]?)?",
        r"-l(m|mvec|gomp|pthread|atomic|stdc\+\+)",
        r"-pthread|-pipe|-s|-shared",
    ),
    "cuda": (
        r"--?use_fast_math",
        (
            r"--?(ftz|prec-div|prec-sqrt|fmad|modify-stack-limit|builtin-move-forward|"
            r"builtin-initializer-list)=(true|false)"
        ),
        r"--?maxrregcount=\d{1,3}",
        r"-O[0-3]|--optimize=[0-3]|-Ofast-compile=\w+|--?dopt(=on)?",
        r"--?std=c\+\+\w\w",
        # nvcc runs its commands through a shell
        r"-D\w+(=[^\0\n`$\\]{0,200})?|-U\w+|--define-macro=\w+(=[^\0\n`$\\]{0,200})?",
        (
            r"-w|--disable-warnings|--?display-error-number|-W(no|error|reorder)[\w-]*|"
            r"--?diag-(suppress|warn|error)=[\w,]{1,100}"
        ),
        (
            r"--?restrict|--?extra-device-vectorization|--?(expt-)?extended-lambda|"
            r"--?expt-relaxed-constexpr|--?default-device|"
            r"--device-as-default-execution-space|--?split-compile=\d{1,2}|--?minimal|"
            r"--?jump-table-density=\d{1,3}"
        ),
        r"--?lineinfo|--generate-line-info|-G|--device-debug|-m64",
        r"--?(arch|gpu-architecture|code|gpu-code)=(sm|compute)_\d{2,3}[af]?",
        rf"(--ptxas-options|-Xptxas)={_PTXAS}(,{_PTXAS}){{0,20}}",
    ),
}
_ACCEPTED = {
    language: re.compile("|".join(f"(?:{p})" for p in patterns))
    for language, patterns in _PATTERNS.items()
}


def refusal(language: str, flag: str) -> str:
    """Return why a flag is not passed to the compiler of "cpp" or "cuda", and what to do; "" for an
    accepted flag."""
    if _ACCEPTED[language].fullmatch(flag):
        return ""
    return (
        f"the flag {flag[:200]!r} is not accepted. Accepted are {ACCEPTED[language]}. Leave it "
        "out, or set it in the source (#pragma, attributes, #define): flags that load plug-ins, "
        "name files, or are for the linker or the assembler never reach the compiler"
    )
