// Provokes various blocks: loops, a switch with fallthrough, calls, thread-local and common variables, string
// instructions.
#include <stdio.h>
#include <string.h>
extern int elsewhere(int), other;
static __thread int local;
int common[100];
double sum(const double *a, int n) { double s = 0; for (int i = 0; i < n; i++) s += a[i] * 2; return s; }
int choose(int x, int y) {
	switch (x) {
	case 0: y += 3;
	case 1: y *= 5; break;
	case 2: return y / 3;
	case 3: y -= 9;
	case 4: return y ^ 3;
	case 5: return y * y;
	case 7: puts("seven"); break;
	case 8: y = common[y % 100];
	}
	return y + local++;
}
int (*table[])(int, int) = {choose, 0};
__attribute__((noinline)) static int cold(int x) { if (x > 3) __builtin_abort(); return x * 3; }
int main(int argc, char **argv) {
	double d[10];
	memset(d, argc, sizeof d);
	return table[0](argc, cold(argc)) + (int)sum(d, 10);
}
int elsewhere(int x) { return x + 1; }
int other;
