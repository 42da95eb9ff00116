// A program around a kernel of pipelines.cu, with a mistake that makes it hang: CTAS THREADS SHARED TRIPS ROWS
// SOURCES SOURCE_BYTES STAGE, as checker/evidence/hardware/pipelines/shapes.py knows them. Copies go by address.

#define UNWATCHED
#include "pipelines.cu"
#include "hang.cuh"

int main(int count, char** words) {
  if (count != 9) return std::printf("usage: CTAS THREADS SHARED TRIPS ROWS SOURCES SOURCE_BYTES STAGE\n"), 2;
  unsigned given[8];
  for (int k = 0; k < 8; ++k) given[k] = static_cast<unsigned>(std::atoi(words[k + 1]));
  const unsigned ctas = given[0], trips = given[3], rows = given[4], sources = given[5], bytes = given[6], stage = given[7];
  Arguments arguments = {};
  arguments.source = Global{static_cast<unsigned*>(zeros(size_t(sources) * bytes)), nullptr, bytes};
  arguments.output = Global{static_cast<unsigned*>(zeros(size_t(ctas) * (rows + 1) * stage)), nullptr, stage};
  arguments.errors = static_cast<unsigned*>(zeros(ctas * sizeof(unsigned)));
  arguments.trips = trips;
  arguments.rows = rows;
  launch(pipeline, ctas, given[1], given[2], CTAS, arguments);
  return hang();
}
