/* Stands for libcuda.so.1: keeps what it is asked for in a log, and runs two "kernels" on the host, so that arguments are really
   read the way the driver reads them. Built by tests/harness/native/test_cuda_host.py. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult;
static int current_context = 0, loads = 0, fail_next_launch = 0, allowed_shared = 48 << 10;
static char log_text[1 << 16];

static void note(const char* text) { strncat(log_text, text, sizeof log_text - strlen(log_text) - 1); }
const char* fake_log(void) { return log_text; }
void fake_forget(void) { log_text[0] = 0; }
void fake_fail_next_launch(int code) { fail_next_launch = code; }
void fake_lose_context(void) { current_context = 0; }

CUresult cuInit(unsigned flags) { return flags ? 1 : 0; }
CUresult cuDeviceGet(int* device, int ordinal) { *device = 70 + ordinal; return ordinal ? 101 : 0; }
CUresult cuDevicePrimaryCtxRetain(void** context, int device) { *context = (void*)(intptr_t)(device + 7); return 0; }
CUresult cuCtxSetCurrent(void* context) { current_context = (intptr_t)context == 77; note("context;"); return 0; }
CUresult cuModuleLoadData(void** module, const void* image) {
    if (!current_context) return 201;
    if (memcmp(image, "\x7f" "ELF", 4)) return 200;
    *module = (void*)(intptr_t)(0x100000000 + ++loads); /* does not fit 32 bits */
    return 0;
}
CUresult cuModuleGetFunction(void** function, void* module, const char* name) {
    if ((intptr_t)module <= 0x100000000) return 400;
    *function = (void*)name;
    if (!strcmp(name, "mix")) *function = (void*)0x200000001; else if (!strcmp(name, "none")) *function = (void*)0x200000002;
    else return 500;
    return 0;
}
CUresult cuFuncSetAttribute(void* function, int attribute, int value) {
    char line[80];
    snprintf(line, sizeof line, "attribute %d=%d;", attribute, value);
    note(line);
    if (value > 232448) return 1;
    allowed_shared = value;
    return 0;
}
CUresult cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, void* stream, void** arguments, void** extra) {
    char line[300];
    if (!current_context) return 201;
    if (fail_next_launch) { int code = fail_next_launch; fail_next_launch = 0; return code; }
    if (extra || shared > (unsigned)allowed_shared) return 1;
    if ((intptr_t)function == 0x200000001) { /* mix(const float* x, float* y, int64_t n, int32_t i, float s, double d, bool b, int8_t c, int16_t h, __half z, uint32_t u) */
        const float* x = *(const float**)arguments[0];
        float* y = *(float**)arguments[1];
        int64_t n = *(int64_t*)arguments[2];
        for (int64_t k = 0; k < n; ++k) y[k] = x[k] * *(float*)arguments[4];
        snprintf(line, sizeof line, "mix n=%lld i=%d d=%g b=%d c=%d h=%d z=%04x u=%u;", (long long)n, *(int32_t*)arguments[3],
                 *(double*)arguments[5], *(unsigned char*)arguments[6], *(int8_t*)arguments[7], *(int16_t*)arguments[8],
                 *(uint16_t*)arguments[9], *(uint32_t*)arguments[10]);
        note(line);
    }
    snprintf(line, sizeof line, "launch %u,%u,%u %u,%u,%u shared=%u stream=%p;", gx, gy, gz, bx, by, bz, shared, stream);
    note(line);
    return 0;
}
CUresult cuGetErrorName(CUresult code, const char** text) {
    *text = code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : code == 1 ? "CUDA_ERROR_INVALID_VALUE" : code == 500 ? "CUDA_ERROR_NOT_FOUND" : 0;
    return *text ? 0 : 1;
}
CUresult cuGetErrorString(CUresult code, const char** text) {
    *text = code == 700 ? "an illegal memory access was encountered" : code == 1 ? "invalid argument" : code == 500 ? "named symbol not found" : 0;
    return *text ? 0 : 1;
}
