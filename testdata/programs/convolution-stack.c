/* A convolution from a static array to one on the stack, at -O3: the environment's size decides how far apart the two
 * are modulo 4096, and with that whether loads of a turn alias with the stores of the same turn. With
 * -DFIXED main calls itself once more if they do: its next frame stands elsewhere.
 *
 *	gcc -O3 -o convolution-stack convolution-stack.c
 */
#include <stdio.h>

enum { N = 1 << 12, STEPS = 5000, NEAR = 64 };

static float in[N] __attribute__((aligned(16)));

/* ALIAS is whether two addresses are less than NEAR bytes apart modulo 4096. */
#define ALIAS(p, q) (((unsigned long)(p) - (unsigned long)(q) + NEAR & 0xfff) < 2 * NEAR)

__attribute__((noinline, noclone)) static void convolve(int n, const float *from, float *to)
{
	const float k[5] = {0.1f, 0.25f, 0.3f, 0.25f, 0.1f};

	for (int i = 2; i < n - 2; i++) {
		to[i] = 0;
		for (int j = 0; j < 5; j++)
			to[i] += from[i - 2 + j] * k[j];
	}
}

int main(int argc, char **argv)
{
	float out[N] __attribute__((aligned(16)));

#ifdef FIXED
	if (ALIAS(in, out)) {
		volatile char room[2 * NEAR]; /* the frame is pages long but for this */
		int status = main(argc, argv);

		room[argc & 1] = status; /* so that the call is none that replaces this frame */
		return status;
	}
#endif
	for (int i = 0; i < STEPS; i++)
		convolve(N, in, out);
	if (argc > 1) /* where they are */
		printf("static %p, stack %p\n", (void *)in, (void *)out);
	return 0;
}
