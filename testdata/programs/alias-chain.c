/* A store to a static, and a load from the stack that the next store waits for. Nothing else
 * is on the critical path, so if the load has to wait for the store, because both agree in
 * their low 12 address bits, every turn takes longer. Where the environment's size puts the
 * stack decides. With -DFIXED, main calls itself once more if they agree: its next frame stands
 * elsewhere. That repair is the one of "Measurement Bias from Address Aliasing".
 *
 *	gcc -O1 -o alias-chain alias-chain.c
 */
#include <stdio.h>

static volatile long sink __attribute__((aligned(16)));

#define ALIAS(p, q) ((((unsigned long)(p) ^ (unsigned long)(q)) & 0xfff) == 0)

int main(int argc, char **argv)
{
	volatile long cell[2] __attribute__((aligned(16))) = {0, 0};
	long i = 0, turns;

#ifdef FIXED
	if (ALIAS(&sink, cell))
		return main(argc, argv);
#endif
	for (turns = 0; turns < (1 << 20); turns++) {
		sink = i;
		i = cell[i]; /* always 0, which no CPU knows before it has loaded it */
	}
	if (argc > 1) /* where they are */
		printf("static %p, stack %p\n", (void *)&sink, (void *)cell);
	return 0;
}
