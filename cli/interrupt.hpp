#pragma once
// Control-C while work goes on: the first ends it in good order, the second at once.

namespace rigcast::cli {

/// While one lives, the first interrupt is only noted.
class OnInterrupt {
 public:
  OnInterrupt();
  ~OnInterrupt();
  OnInterrupt(const OnInterrupt&) = delete;
  OnInterrupt& operator=(const OnInterrupt&) = delete;

 private:
  void (*before_)(int);
};

/// One was noted since the program began.
bool interrupted();

}  // namespace rigcast::cli
