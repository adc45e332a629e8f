/* X(0) X(1) ... X(N - 1), so that a chain of a fixed length is straight-line code in C as well. */
#ifndef REPEAT_H
#define REPEAT_H

#define TIMES_1(X) X(0)
#define TIMES_2(X) TIMES_1(X) X(1)
#define TIMES_4(X) TIMES_2(X) X(2) X(3)
#define TIMES_8(X) TIMES_4(X) X(4) X(5) X(6) X(7)
#define TIMES_16(X) TIMES_8(X) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define TIMES_32(X) \
	TIMES_16(X) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) \
	X(29) X(30) X(31)

#endif
