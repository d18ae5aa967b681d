/* A convolution of one dimension, whose input and output are at a given distance modulo 4096. K times the
 * same step, so that (t_k - t_1) / (k - 1) is the time of one. With -DRESTRICT the compiler may keep
 * sums in registers and load ahead of stores. The kernel is that of "Measurement Bias from Address Aliasing".
 *
 *	gcc -O2 -o convolution convolution.c
 *	./convolution K FROM TO    offsets in steps of 16 bytes, each with the TSC's ticks of a step
 *	./convolution K            between two blocks of malloc, which are 16 bytes apart modulo 4096 with glibc
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <x86intrin.h>

#ifdef RESTRICT
#define ALONE restrict
#else
#define ALONE
#endif

enum { N = 1 << 14, PAGE = 4096, RUNS = 9 };

__attribute__((noinline, noclone)) static void convolve(int n, const float *ALONE in, float *ALONE out)
{
	const float k[5] = {0.1f, 0.25f, 0.3f, 0.25f, 0.1f};

	for (int i = 2; i < n - 2; i++) {
		out[i] = 0;
		for (int j = 0; j < 5; j++)
			out[i] += in[i - 2 + j] * k[j];
	}
}

int main(int argc, char **argv)
{
	int steps = argc > 1 ? atoi(argv[1]) : 2;
	int from = argc > 2 ? atoi(argv[2]) : 0, to = argc > 3 ? atoi(argv[3]) : from;
	int size = N * sizeof(float) + 2 * PAGE;

	if (argc < 3) {
		float *in = malloc(N * sizeof(float)), *out = malloc(N * sizeof(float));

		if (!in || !out)
			return 1;
		for (int i = 0; i < N; i++)
			in[i] = i % 7;
		for (int i = 0; i < steps; i++)
			convolve(N, in, out);
		free(in);
		free(out);
		return 0;
	}
	char *in = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	char *out = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (in == MAP_FAILED || out == MAP_FAILED)
		return 1;
	for (int offset = from; offset <= to; offset += 16) {
		unsigned long long first = -1, all = -1; /* the least of each: what disturbs only adds */
		for (int run = 0; run < RUNS; run++) {
			unsigned long long t[3];
			t[0] = __rdtsc();
			convolve(N, (float *)in, (float *)(out + offset));
			t[1] = __rdtsc();
			for (int i = 0; i < steps; i++)
				convolve(N, (float *)in, (float *)(out + offset));
			t[2] = __rdtsc();
			if (t[1] - t[0] < first)
				first = t[1] - t[0];
			if (t[2] - t[1] < all)
				all = t[2] - t[1];
		}
		printf("%d,%.0f\n", offset, ((double)all - first) / (steps - 1));
	}
	return 0;
}
