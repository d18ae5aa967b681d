/* Three sums. At -O2 gcc replaces the loop of each by a formula or keeps it; at -O0 all loop.
 *
 *	gcc -O2 -o sums sums.c
 *	./sums 1000
 */
#include <stdio.h>
#include <stdlib.h>

#define KEEP __attribute__((noinline, noclone))

/* 0 + 1 + ... + n-1: clang has a formula for it at -O2, gcc does not. */
KEEP unsigned long triangle(unsigned long n)
{
	unsigned long sum = 0;

	for (unsigned long i = 0; i < n; i++)
		sum += i;
	return sum;
}

/* n times the same: what is left at -O2 is a multiplication. */
KEEP unsigned long product(unsigned long n, unsigned long step)
{
	unsigned long sum = 0;

	for (unsigned long i = 0; i < n; i++)
		sum += step;
	return sum;
}

/* Calls itself. */
KEEP unsigned long fibonacci(unsigned long n)
{
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

int main(int argc, char **argv)
{
	unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 10) : 10;

	printf("%lu %lu %lu\n", triangle(n), product(n, 3), fibonacci(n % 20));
	return 0;
}
