// Operations on words, flags and counters of 32 bits in any memory, by generic address: each with its .sem and .scope.

#pragma once

#include "ptx.cuh"

namespace words {

enum Kind : int { LD, SPIN, ST, ADD, INC, DEC, EXCH, CAS, MIN, MAX, AND, OR, XOR };
enum Sem : int { WEAK, RELAXED, ACQUIRE, RELEASE, ACQ_REL };
enum Scope : int { OF_CTA, OF_CLUSTER, OF_GPU, OF_SYSTEM };
enum Comparison : int { EQUAL, DIFFERENT, LESS, AT_MOST, MORE, AT_LEAST };

// What an instruction packs into one number.
struct Form {
  int kind, sem, scope, comparison;
  bool answers;

  __device__ __forceinline__ explicit Form(int packed)
      : kind(packed & 15), sem(packed >> 4 & 7), scope(packed >> 7 & 3), comparison(packed >> 9 & 7),
        answers(packed >> 12 & 1) {}
};

#define BY_SCOPE(DO, sem, name) \
  switch (scope) { \
    case OF_CTA: DO(sem, "cta", name); break; \
    case OF_CLUSTER: DO(sem, "cluster", name); break; \
    case OF_GPU: DO(sem, "gpu", name); break; \
    default: DO(sem, "sys", name); \
  }

#define LD_(sem, scope, name) \
  asm volatile("ld." sem "." scope "." name " %0, [%1];" : "=r"(value) : "l"(at) : "memory")
#define ST_(sem, scope, name) asm volatile("st." sem "." scope "." name " [%0], %1;" ::"l"(at), "r"(value) : "memory")
#define ATOM_(sem, scope, name) \
  asm volatile("atom." sem "." scope "." name " %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(operand) : "memory")
#define CAS_(sem, scope, name) \
  asm volatile("atom." sem "." scope "." name " %0, [%1], %2, %3;" \
               : "=r"(old) : "l"(at), "r"(compare), "r"(operand) : "memory")
#define RED_(sem, scope, name) \
  asm volatile("red." sem "." scope "." name " [%0], %1;" ::"l"(at), "r"(operand) : "memory")
#define FENCE_(sem, scope, name) asm volatile("fence." sem "." scope ";" ::: "memory")

#define BY_SEM(DO, name) \
  switch (sem) { \
    case ACQUIRE: BY_SCOPE(DO, "acquire", name) break; \
    case RELEASE: BY_SCOPE(DO, "release", name) break; \
    case ACQ_REL: BY_SCOPE(DO, "acq_rel", name) break; \
    default: BY_SCOPE(DO, "relaxed", name) \
  }

PTX unsigned load(unsigned long long at, int sem, int scope) {
  unsigned value;
  switch (sem) {
    case WEAK: asm volatile("ld.weak.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory"); break;
    case ACQUIRE: BY_SCOPE(LD_, "acquire", "u32") break;
    default: BY_SCOPE(LD_, "relaxed", "u32")
  }
  return value;
}

PTX void store(unsigned long long at, int sem, int scope, unsigned value) {
  switch (sem) {
    case WEAK: asm volatile("st.weak.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory"); break;
    case RELEASE: BY_SCOPE(ST_, "release", "u32") break;
    default: BY_SCOPE(ST_, "relaxed", "u32")
  }
}

// The value before.
PTX unsigned atom(unsigned long long at, int kind, int sem, int scope, unsigned operand, unsigned compare) {
  unsigned old = 0;
  switch (kind) {
    case ADD: BY_SEM(ATOM_, "add.u32") break;
    case INC: BY_SEM(ATOM_, "inc.u32") break;
    case DEC: BY_SEM(ATOM_, "dec.u32") break;
    case EXCH: BY_SEM(ATOM_, "exch.b32") break;
    case CAS: BY_SEM(CAS_, "cas.b32") break;
    case MIN: BY_SEM(ATOM_, "min.u32") break;
    case MAX: BY_SEM(ATOM_, "max.u32") break;
    case AND: BY_SEM(ATOM_, "and.b32") break;
    case OR: BY_SEM(ATOM_, "or.b32") break;
    case XOR: BY_SEM(ATOM_, "xor.b32") break;
    default: __trap();
  }
  return old;
}

#define RED_BY_SEM(name) \
  if (sem == RELEASE) { \
    BY_SCOPE(RED_, "release", name) \
  } else { \
    BY_SCOPE(RED_, "relaxed", name) \
  }

PTX void red(unsigned long long at, int kind, int sem, int scope, unsigned operand) {
  switch (kind) {
    case ADD: RED_BY_SEM("add.u32") break;
    case INC: RED_BY_SEM("inc.u32") break;
    case DEC: RED_BY_SEM("dec.u32") break;
    case MIN: RED_BY_SEM("min.u32") break;
    case MAX: RED_BY_SEM("max.u32") break;
    case AND: RED_BY_SEM("and.b32") break;
    case OR: RED_BY_SEM("or.b32") break;
    case XOR: RED_BY_SEM("xor.b32") break;
    default: __trap();
  }
}

PTX void fence(bool sequential, int scope) {
  if (sequential) {
    BY_SCOPE(FENCE_, "sc", "")
  } else {
    BY_SCOPE(FENCE_, "acq_rel", "")
  }
}

PTX bool compares(int comparison, unsigned value, unsigned other) {
  switch (comparison) {
    case EQUAL: return value == other;
    case DIFFERENT: return value != other;
    case LESS: return value < other;
    case AT_MOST: return value <= other;
    case MORE: return value > other;
    case AT_LEAST: return value >= other;
    default: __trap();
  }
  return false;
}

// Of a word that counts modulo so many values, the one that it stands for; of others, 0 values, its own.
PTX unsigned within(unsigned value, int values) {
  return values ? static_cast<unsigned>((static_cast<int>(value) % values + values) % values) : value;
}

}  // namespace words
