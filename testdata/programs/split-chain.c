/* A load from the stack, whose address waits for the load before. It stands 12 bytes above a
 * multiple of 16, so that with every fourth multiple it lies across two cache lines, and once in
 * 4096 bytes across two pages. Where the environment's size puts the stack decides.
 *
 *	gcc -O1 -o split-chain split-chain.c
 */
#include <stdio.h>

int main(int argc, char **argv)
{
	char room[32] __attribute__((aligned(16))) = {0};
	volatile long *cell = (volatile long *)(room + 12);
	long i = 0, turns;

	for (turns = 0; turns < (1 << 20); turns++)
		i = cell[i]; /* always 0, which no CPU knows before it has loaded it */
	if (argc > 1) /* where it is */
		printf("stack %p\n", (void *)cell);
	return 0;
}
