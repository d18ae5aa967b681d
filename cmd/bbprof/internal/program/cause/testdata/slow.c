// A program that is twice as slow if its code is on an odd page (-DCODE), or if two malloc blocks share address bits 4 to 11
// (-DBLOCKS): causes that work on any core.
#include <stdint.h>
#include <stdlib.h>
static volatile long sum;
__attribute__((noinline, noclone)) static void work(volatile char *a, volatile char *b)
{
	int slow = 0;
	for (int i = 0; i < 64; i++) {
		a[i] = i;
		sum += b[i];
	}
#ifdef CODE
	slow |= (uintptr_t)work >> 12 & 1;
#endif
#ifdef BLOCKS
	slow |= (((uintptr_t)a ^ (uintptr_t)b) & 0xff0) == 0;
#endif
	for (long i = 0; i < 500000L << slow; i++)
		sum += i;
}
int main(void)
{
	char *a = malloc(8192 - 16), *b = malloc(5000);
	work(a, b);
	free(a);
	free(b);
	return 0;
}
