/* Three small functions in a loop, for docs/compare.md: a linker has functions and data to move, and -DTURNS
 * says how much there is to do.
 *
 *	gcc -O2 -ffunction-sections -fdata-sections -DTURNS=100000 -c loop.c
 */
#ifndef TURNS
#define TURNS 100000
#endif

static unsigned table[256];
unsigned seen, mixed;

__attribute__((noinline)) static unsigned mix(unsigned x)
{
	x ^= x << 13;
	x ^= x >> 17;
	return x ^ x << 5;
}

__attribute__((noinline)) static void count(unsigned x)
{
	table[x & 255]++;
	seen += table[x >> 24] & 1;
}

__attribute__((noinline)) static unsigned fold(unsigned x)
{
	unsigned sum = 0;
	for (int i = 0; i < 8; i++)
		sum += x >> 4 * i & 15;
	return sum;
}

int main(void)
{
	unsigned x = 2463534242u;
	for (int i = 0; i < TURNS; i++) {
		x = mix(x);
		count(x);
		mixed += fold(x);
	}
	return mixed == 0;
}
