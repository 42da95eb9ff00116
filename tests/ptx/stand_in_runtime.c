/* A stand-in for CUDA, for programs on machines without a GPU: no kernel runs, and each launch is written as a launch
 * file.
 *
 * A CUDA program is linked with it instead of the runtime (nvcc -cudart none program.cu stand_in_runtime.c). As a
 * shared library (gcc -shared -fPIC) it is the runtime of CuTe DSL (CUTE_DSL_LIBS), whose functions have the same names
 * with an underscore before, and, under the name libcuda.so.1, the driver of Triton (TRITON_LIBCUDA_PATH and
 * LD_LIBRARY_PATH: the folder it is in).
 *
 *   STAND_IN_PTX       file: the PTX of the kernels, which says how large their parameters are
 *   STAND_IN_LAUNCHES  file that the launches are appended to, one JSON object a line; without it, the output
 *   STAND_IN_SMS       how many SMs the device has (132); a persistent kernel has as many CTAs
 *
 * What the program copies back is what it had copied there, and zeros where it had not: no kernel has written anything.
 * Addresses are the same in every run. What a program copies to memory is written beside the launch ("memory"),
 * and a tensor map that a parameter holds is written in words ("tensor_maps").
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))
/* NAME for CUDA programs, _NAME for CuTe DSL. */
#define ALSO(name) extern __typeof__(name) _##name API __attribute__((alias(#name)));
/* A function that has nothing to do. */
#define SUCCEED(name)  \
  API int name(void) { \
    return 0;          \
  }                    \
  ALSO(name)

enum { MAPS = 256, KERNELS = 4096, PARAMETERS = 64, INVALID_VALUE = 1 };

static void die(const char* what, const char* which) {
  fprintf(stderr, "stand-in runtime: %s%s\n", what, which);
  exit(3);
}

/* Memory. */

static uint64_t next_address = 0x400000000000;
typedef struct {
  uint64_t to;
  size_t size;
  unsigned char* bytes; /* or, where there are none, all of them are: */
  unsigned char byte;
} Copy;
static Copy* copies;
static int copy_count;

static Copy* one_more_copy(void* to, size_t size) {
  copies = realloc(copies, (size_t)(copy_count + 1) * sizeof *copies);
  if (!copies) die("out of memory", "");
  Copy* copy = &copies[copy_count++];
  *copy = (Copy){(uint64_t)to, size, NULL, 0};
  return copy;
}

static void copy_back(unsigned char* to, uint64_t from, size_t size) {
  memset(to, 0, size);
  for (Copy* one = copies; one < copies + copy_count; one++) {
    uint64_t begin = one->to > from ? one->to : from;
    uint64_t end = one->to + one->size < from + size ? one->to + one->size : from + size;
    if (begin >= end) continue;
    if (one->bytes)
      memcpy(to + (begin - from), one->bytes + (begin - one->to), end - begin);
    else
      memset(to + (begin - from), one->byte, end - begin);
  }
}

API int cudaMalloc(void** address, size_t size) {
  const uint64_t page = 2 << 20;
  *address = (void*)next_address;
  next_address += (size + page) / page * page;
  return 0;
}
ALSO(cudaMalloc)

API int cudaMemcpy(void* to, const void* from, size_t size, int kind) {
  if (kind == 2) copy_back(to, (uint64_t)from, size);
  if (kind == 1) {
    unsigned char* bytes = malloc(size + 1);
    if (!bytes) die("out of memory", "");
    one_more_copy(to, size)->bytes = memcpy(bytes, from, size);
  }
  return kind >= 1 && kind <= 3 ? 0 : INVALID_VALUE;
}
ALSO(cudaMemcpy)

API int cudaMemcpyAsync(void* to, const void* from, size_t size, int kind, void* stream) {
  (void)stream;
  return cudaMemcpy(to, from, size, kind);
}
ALSO(cudaMemcpyAsync)

API int cudaMemset(void* to, int byte, size_t size) {
  one_more_copy(to, size)->byte = (unsigned char)byte;
  return 0;
}
ALSO(cudaMemset)

API int cudaMemsetAsync(void* to, int byte, size_t size, void* stream) {
  (void)stream;
  return cudaMemset(to, byte, size);
}
ALSO(cudaMemsetAsync)

/* Tensor maps. The layout of the 128 bytes is not documented; this is what driver 580 writes for Hopper:
 *
 *   word 0, 1   the address
 *   word 2      bit 0 im2col; 4-6 rank - 1; 7-10 the type as the hardware numbers it; 11-12 interleave; 13-14 swizzle;
 *               15 fill with NaN; 16 round to tf32; 17-18 L2 promotion
 *   word 3-6    strides / 16 of dimensions 1-4; word 7 has 4 more bits of each
 *   word 8-12   sizes - 1
 *   word 13     element strides - 1, 3 bits each; from byte 55 on a byte for each box size - 1
 *   word 16     the bytes of a box, word 18 the bytes that a swizzle repeats after: the hardware reads neither
 */

typedef struct {
  unsigned char bytes[128];
  int element_bytes, swizzle, interleave, rank;
  uint32_t box[5];
} Map;
static Map maps[MAPS];
static int map_count;

/* By CUtensorMapDataType. */
static const int type_bytes[13] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
static const int hardware_type[13] = {0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 8, 7, 8};
enum { FIRST_TF32 = 11 };

API int cuTensorMapEncodeTiled(void* map, int type, uint32_t rank, void* address, const uint64_t* dims,
                               const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides,
                               int interleave, int swizzle, int promotion, int fill) {
  if (type < 0 || type > 12 || rank < 1 || rank > 5) return INVALID_VALUE;
  static const uint32_t atoms[4] = {16, 256, 512, 1024};
  uint32_t words[32] = {0}, bytes = (uint32_t)type_bytes[type];
  words[0] = (uint32_t)(uint64_t)address;
  words[1] = (uint32_t)((uint64_t)address >> 32);
  words[2] = (rank - 1) << 4 | (uint32_t)hardware_type[type] << 7 | (uint32_t)interleave << 11 |
             (uint32_t)swizzle << 13 | (uint32_t)fill << 15 | (uint32_t)(type >= FIRST_TF32) << 16 |
             (uint32_t)promotion << 17;
  unsigned char* boxes = (unsigned char*)words + 55;
  for (uint32_t i = 0; i < rank; i++) {
    if (i + 1 < rank) {
      words[3 + i] = (uint32_t)(strides[i] / 16);
      words[7] |= (uint32_t)(strides[i] / 16 >> 32) << 4 * i;
    }
    words[8 + i] = (uint32_t)(dims[i] - 1);
    words[13] |= (element_strides[i] - 1) << 3 * i;
    boxes[i] = (unsigned char)(box[i] - 1);
    bytes *= box[i] / element_strides[i];
  }
  words[16] = bytes;
  words[18] = atoms[swizzle & 3];
  memcpy(map, words, sizeof words);
  Map* kept = &maps[map_count++ % MAPS];
  memcpy(kept->bytes, words, sizeof words);
  kept->element_bytes = type_bytes[type];
  kept->swizzle = swizzle ? 16 << swizzle : 0;
  kept->interleave = 16 * interleave;
  kept->rank = (int)rank;
  memcpy(kept->box, box, rank * sizeof *box);
  return 0;
}
ALSO(cuTensorMapEncodeTiled)

API int cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version, uint64_t flags,
                                         int* status) {
  (void)version, (void)flags;
  int known = strcmp(name, "cuTensorMapEncodeTiled") == 0;
  *function = known ? (void*)cuTensorMapEncodeTiled : NULL;
  if (status) *status = known ? 0 : 1;
  return 0;
}

API int cudaGetDriverEntryPoint(const char* name, void** function, uint64_t flags, int* status) {
  return cudaGetDriverEntryPointByVersion(name, function, 0, flags, status);
}

/* Kernels and the sizes of their parameters. */

static struct {
  const void* handle;
  char* name;
} kernels[KERNELS];
static int kernel_count;

static const void* remember(const void* handle, const char* name) {
  if (kernel_count == KERNELS) die("too many kernels", "");
  kernels[kernel_count].name = strdup(name);
  kernels[kernel_count].handle = handle ? handle : kernels[kernel_count].name;
  return kernels[kernel_count++].handle;
}

static const char* name_of(const void* handle) {
  for (int i = 0; i < kernel_count; i++)
    if (kernels[i].handle == handle) return kernels[i].name;
  return NULL;
}

static char* text_of(const char* path) {
  FILE* file = fopen(path, "rb");
  if (!file) die("cannot open ", path);
  fseek(file, 0, SEEK_END);
  long size = ftell(file);
  rewind(file);
  char* text = calloc(1, (size_t)size + 1);
  if (fread(text, 1, (size_t)size, file) != (size_t)size) die("cannot read ", path);
  fclose(file);
  return text;
}

/* `.param .align 128 .b8 name[1536]` and `.param .u64 .ptr .global .align 16 name` in the parentheses of an .entry:
 * the offset and the size of each. */
static int layout_of(const char* ptx, const char* kernel, size_t offsets[], size_t sizes[]) {
  const char* at = ptx;
  size_t length = strlen(kernel), end = 0;
  int count = 0;
  while ((at = strstr(at, ".entry"))) {
    at += strcspn(at, " \t\r\n");
    at += strspn(at, " \t\r\n");
    if (strncmp(at, kernel, length) == 0 && strchr("( \t\r\n", at[length])) break;
  }
  if (!at) die("the PTX has no .entry ", kernel);
  at += strcspn(at, "({");
  if (*at == '{') return 0;
  const char* close = strchr(at, ')');
  while ((at = strstr(at, ".param")) && at < close) {
    size_t alignment = 0, size = 0, number = 1;
    const char* last = at + strcspn(at, ",)");
    for (const char* word = at + 6; word < last; word++) {
      if (*word == '[') number = strtoul(word + 1, NULL, 10);
      if (*word != '.') continue;
      if (!size && strncmp(word, ".align", 6) == 0) alignment = strtoul(word + 6, NULL, 10);
      if (!size && strchr("bsuf", word[1]) && word[2] >= '0' && word[2] <= '9') size = strtoul(word + 2, NULL, 10) / 8;
    }
    if (!size) die("cannot read a parameter of ", kernel);
    if (alignment < size) alignment = size;
    if (count == PARAMETERS) die("too many parameters of ", kernel);
    offsets[count] = (end + alignment - 1) / alignment * alignment;
    sizes[count] = size * number;
    end = offsets[count] + sizes[count];
    count++;
    at = last;
  }
  return count;
}

/* Launches. */

typedef struct {
  unsigned x, y, z;
} Size;
typedef struct {
  int id;
  char padding[4];
  union {
    Size size;
    char bytes[64];
  } value;
} Attribute;
typedef struct {
  Size grid, block;
  size_t shared;
  void* stream;
  Attribute* attributes;
  unsigned attribute_count;
} Configuration;
enum { CLUSTER_DIMENSION = 4, PROGRAMMATIC_SERIALIZATION = 6 };

static void hexadecimal(FILE* out, const unsigned char* bytes, size_t size) {
  for (size_t i = 0; i < size; i++) fprintf(out, "%02x", bytes[i]);
}

static void write_maps(FILE* out, const unsigned char* block, size_t size) {
  int written = 0;
  fprintf(out, ", \"tensor_maps\": [");
  for (size_t offset = 0; offset + 128 <= size; offset += 64)
    for (int i = 0; i < MAPS; i++)
      if (maps[i].rank && memcmp(block + offset, maps[i].bytes, 128) == 0) {
        fprintf(out, "%s{\"offset\": %zu, \"element_bytes\": %d, \"box\": [", written++ ? ", " : "", offset,
                maps[i].element_bytes);
        for (int d = 0; d < maps[i].rank; d++) fprintf(out, "%s%u", d ? ", " : "", maps[i].box[d]);
        fprintf(out, "], \"swizzle\": %d, \"interleave\": %d}", maps[i].swizzle, maps[i].interleave);
        break;
      }
  fprintf(out, "]");
}

static int write_launch(const char* kernel, Size grid, Size block, size_t shared, const Attribute* attributes,
                        unsigned attribute_count, void** arguments) {
  const char *to = getenv("STAND_IN_LAUNCHES"), *ptx = getenv("STAND_IN_PTX");
  FILE* out = to ? fopen(to, "a") : stdout;
  if (!out) die("cannot open ", to);
  fprintf(out, "{\"launch\": 1, \"kernel\": \"%s\", \"grid\": [%u, %u, %u], \"block\": [%u, %u, %u]", kernel, grid.x,
          grid.y, grid.z, block.x, block.y, block.z);
  for (unsigned i = 0; i < attribute_count; i++) {
    Size size = attributes[i].value.size;
    if (attributes[i].id == CLUSTER_DIMENSION)
      fprintf(out, ", \"cluster\": [%u, %u, %u]", size.x, size.y, size.z);
    else if (attributes[i].id == PROGRAMMATIC_SERIALIZATION && size.x)
      fprintf(out, ", \"programmatic_serialization\": true");
  }
  fprintf(out, ", \"dynamic_shared\": %zu", shared);
  if (ptx) {
    size_t offsets[PARAMETERS], sizes[PARAMETERS];
    char* text = text_of(ptx);
    int count = layout_of(text, kernel, offsets, sizes);
    free(text);
    size_t size = count ? offsets[count - 1] + sizes[count - 1] : 0;
    unsigned char* bytes = calloc(1, size + 1);
    for (int i = 0; i < count; i++) memcpy(bytes + offsets[i], arguments[i], sizes[i]);
    fprintf(out, ", \"parameters\": \"");
    hexadecimal(out, bytes, size);
    fprintf(out, "\"");
    write_maps(out, bytes, size);
    free(bytes);
  }
  for (int i = 0; i < copy_count; i++) {
    fprintf(out, "%s{\"address\": %llu, ", i ? ", " : ", \"memory\": [", (unsigned long long)copies[i].to);
    if (copies[i].bytes) {
      fprintf(out, "\"bytes\": \"");
      hexadecimal(out, copies[i].bytes, copies[i].size);
      fprintf(out, "\"");
    } else {
      fprintf(out, "\"size\": %zu, \"byte\": %u", copies[i].size, copies[i].byte);
    }
    fprintf(out, "}%s", i + 1 == copy_count ? "]" : "");
  }
  fprintf(out, "}\n");
  if (to) fclose(out);
  return 0;
}

API int cudaLaunchKernelExC(const Configuration* of, const void* kernel, void** arguments) {
  const char* name = name_of(kernel);
  if (!name) die("launches an unknown kernel", "");
  return write_launch(name, of->grid, of->block, of->shared, of->attributes, of->attribute_count, arguments);
}
extern __typeof__(cudaLaunchKernelExC) _cudaLaunchKernelEx API __attribute__((alias("cudaLaunchKernelExC")));

API int cudaLaunchKernel(const void* kernel, Size grid, Size block, void** arguments, size_t shared, void* stream) {
  Configuration of = {grid, block, shared, stream, NULL, 0};
  return cudaLaunchKernelExC(&of, kernel, arguments);
}

/* What nvcc writes for kernel<<<grid, block, shared, stream>>>(...). */

API int __cudaLaunchKernel(const void* kernel, Size grid, Size block, void** arguments, size_t shared, void* stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

API int __cudaGetKernel(const void** kernel, const void* function) {
  *kernel = function;
  return 0;
}

static Configuration pushed;

API unsigned __cudaPushCallConfiguration(Size grid, Size block, size_t shared, void* stream) {
  pushed = (Configuration){grid, block, shared, stream, NULL, 0};
  return 0;
}

API int __cudaPopCallConfiguration(Size* grid, Size* block, size_t* shared, void** stream) {
  *grid = pushed.grid, *block = pushed.block, *shared = pushed.shared, *stream = pushed.stream;
  return 0;
}

API void** __cudaRegisterFatBinary(void* binary) {
  static void* handle;
  handle = binary;
  return &handle;
}
API void __cudaRegisterFunction(void** binary, const void* function, char* device_function, const char* name) {
  (void)binary, (void)device_function;
  remember(function, name);
}
API char __cudaInitModule(void** binary) {
  (void)binary;
  return 0;
}
API void __cudaRegisterFatBinaryEnd(void) {}
API void __cudaRegisterVar(void) {}
API void __cudaUnregisterFatBinary(void) {}

/* What CuTe DSL calls. */

API int _cudaLibraryLoadData(void** library, const void* code) {
  *library = (void*)code;
  return 0;
}
extern __typeof__(_cudaLibraryLoadData) _cuLibraryLoadData API __attribute__((alias("_cudaLibraryLoadData")));

API int _cudaLibraryGetKernel(const void** kernel, void* library, const char* name) {
  (void)library;
  *kernel = remember(NULL, name);
  return 0;
}
extern __typeof__(_cudaLibraryGetKernel) _cuLibraryGetKernel API __attribute__((alias("_cudaLibraryGetKernel")));

/* One H100 SXM. The driver numbers attributes as the runtime does. */

static int sms(void) {
  const char* text = getenv("STAND_IN_SMS");
  return text ? atoi(text) : 132;
}

API int cudaDeviceGetAttribute(int* value, int attribute, int device) {
  (void)device;
  switch (attribute) {
    case 10: *value = 32; break;       /* threads of a warp */
    case 12: *value = 65536; break;    /* registers of a block */
    case 16: *value = sms(); break;
    case 75: *value = 9; break;        /* compute capability 9.0 */
    case 76: *value = 0; break;
    case 81: *value = 228 << 10; break; /* shared memory of an SM */
    case 97: *value = 227 << 10; break; /* of a block that asks for it */
    default: *value = 1;
  }
  return 0;
}
ALSO(cudaDeviceGetAttribute)
extern __typeof__(cudaDeviceGetAttribute) cuDeviceGetAttribute API __attribute__((alias("cudaDeviceGetAttribute")));

API int cudaGetDevice(int* device) {
  *device = 0;
  return 0;
}
ALSO(cudaGetDevice)
extern __typeof__(cudaGetDevice) cuCtxGetDevice API __attribute__((alias("cudaGetDevice")));

API int cudaGetDeviceCount(int* count) {
  *count = 1;
  return 0;
}
ALSO(cudaGetDeviceCount)
extern __typeof__(cudaGetDeviceCount) cuDeviceGetCount API __attribute__((alias("cudaGetDeviceCount")));

/* What programs ask besides, as CUTLASS's examples do. The structures are those of CUDA 13. */

API int cudaGetDeviceProperties(unsigned char properties[1008], int device) {
  (void)device;
  static const struct {
    int at, value;
  } known[] = {{304, 65536}, {308, 32}, {320, 1024}, {360, 9}, {604, 2048}};
  memset(properties, 0, 1008);
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) memcpy(properties + known[i].at, &known[i].value, 4);
  const size_t memory = (size_t)80 << 30, shared[2] = {228 << 10, 227 << 10};
  const int count = sms();
  memcpy(properties + 288, &memory, sizeof memory);
  memcpy(properties + 384, &count, sizeof count);
  memcpy(properties + 624, &shared[0], sizeof shared[0]);
  memcpy(properties + 672, &shared[1], sizeof shared[1]);
  return 0;
}

API int cudaFuncGetAttributes(unsigned char attributes[144], const void* function) {
  (void)function;
  const int threads = 1024;
  memset(attributes, 0, 144);
  memcpy(attributes + 24, &threads, sizeof threads);
  return 0;
}

API int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* count, const void* function, int threads,
                                                               size_t shared, unsigned flags) {
  (void)function, (void)threads, (void)shared, (void)flags;
  *count = 1;
  return 0;
}

API int cudaOccupancyMaxActiveClusters(int* count, const void* function, const Configuration* of) {
  (void)function;
  unsigned size = 1;
  for (unsigned i = 0; i < of->attribute_count; i++) {
    Size cluster = of->attributes[i].value.size;
    if (of->attributes[i].id == CLUSTER_DIMENSION) size = cluster.x * cluster.y * cluster.z;
  }
  *count = sms() / (int)(size ? size : 1);
  return 0;
}

API int cudaEventCreate(void** event) {
  *event = &kernels;
  return 0;
}

API int cudaEventElapsedTime(float* milliseconds, void* start, void* end) {
  (void)start, (void)end;
  *milliseconds = 1;
  return 0;
}

/* What Triton calls of the driver. */

API int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}

API int cuCtxGetCurrent(void** context) {
  *context = &kernels;
  return 0;
}

API int cuDevicePrimaryCtxRetain(void** context, int device) {
  (void)device;
  return cuCtxGetCurrent(context);
}

API int cuCtxGetLimit(size_t* value, int limit) {
  (void)limit;
  *value = 1 << 20;
  return 0;
}

API int cuStreamIsCapturing(void* stream, int* status) {
  (void)stream;
  *status = 0;
  return 0;
}

API int cuPointerGetAttribute(uint64_t* value, int attribute, uint64_t address) {
  (void)attribute;
  *value = address;
  return 0;
}

API int cuFuncGetAttribute(int* value, int attribute, const void* function) {
  (void)function;
  *value = attribute == 0 ? 1024 : 0; /* threads of a block; shared memory, registers: not known here */
  return 0;
}

API int cuModuleLoadData(const void** module, const void* image) {
  *module = image;
  return 0;
}

API int cuModuleGetFunction(const void** function, void* module, const char* name) {
  (void)module;
  *function = remember(NULL, name);
  return 0;
}

API int cuGetErrorString(int error, const char** text) {
  *text = error ? "an error of the stand-in driver" : "no error";
  return 0;
}

API int cuLaunchKernelEx(const Configuration* of, const void* function, void** arguments, void** extra) {
  (void)extra;
  Configuration launch = *of;
  launch.shared = (uint32_t)launch.shared; /* the driver's structure has 32 bits of it */
  return cudaLaunchKernelExC(&launch, function, arguments);
}

API int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}
ALSO(cuDeviceGet)

/* Which shared memory a block has by itself, and how much it may ask for. */
API int _cuKernelGetAttribute(int* value, int attribute) {
  *value = attribute == 8 ? 227 << 10 : 0;
  return 0;
}

API const char* cudaGetErrorString(int error) { return error ? "an error of the stand-in runtime" : "no error"; }
API const char* cudaGetErrorName(int error) { return error ? "error" : "cudaSuccess"; }

SUCCEED(cudaDeviceSynchronize)
SUCCEED(cudaEventDestroy)
SUCCEED(cudaEventRecord)
SUCCEED(cudaEventSynchronize)
SUCCEED(cudaFree)
SUCCEED(cudaFuncSetAttribute)
SUCCEED(cudaGetLastError)
SUCCEED(cudaKernelSetAttributeForDevice)
SUCCEED(cudaSetDevice)
SUCCEED(cudaStreamSynchronize)
SUCCEED(cuCtxSetCurrent)
SUCCEED(cuCtxSetLimit)
SUCCEED(cuFuncSetAttribute)
SUCCEED(cuFuncSetCacheConfig)
SUCCEED(cuInit)
SUCCEED(cuModuleUnload)
