/* Three statics that a stack variable is added to, at -O0: all four live in memory, and each
 * turn loads the stack variable three times, right behind stores to the statics. Where the
 * environment's size puts the stack decides whether a load agrees in its low 12 address bits
 * with one of these stores. The kernel is that of "Measurement Bias from Address Aliasing".
 *
 *	gcc -O0 -o alias alias.c
 */
#include <stdio.h>

static int x, y, z;

int main(int argc, char **argv)
{
	int step = 1, turns;

	for (turns = 0; turns < (1 << 20); turns++) {
		x += step;
		y += step;
		z += step;
	}
	if (argc > 1) /* where they are */
		printf("statics %p %p %p, stack %p %p\n", (void *)&x, (void *)&y, (void *)&z, (void *)&step, (void *)&turns);
	return 0;
}
