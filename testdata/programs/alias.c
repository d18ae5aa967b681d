/* Three statics that a stack variable is added to, at -O0: all four live in memory, and each
 * turn loads the stack variable three times, right behind stores to the statics. Where the
 * environment's size puts the stack decides whether a load agrees in its low 12 address bits
 * with one of these stores. The kernel is that of "Measurement Bias from Address Aliasing", and
 * with -DFIXED its repair: main calls itself once more if an address agrees, and its next frame
 * stands elsewhere.
 *
 *	gcc -O0 -o alias alias.c
 */
#include <stdio.h>

static int x, y, z;

#define ALIAS(p, q) ((((unsigned long)(p) ^ (unsigned long)(q)) & 0xfff) == 0)
#define WITH_ANY(p) (ALIAS(p, &x) || ALIAS(p, &y) || ALIAS(p, &z))

int main(int argc, char **argv)
{
	int step = 1, turns;

#ifdef FIXED
	if (WITH_ANY(&step) || WITH_ANY(&turns))
		return main(argc, argv);
#endif
	for (turns = 0; turns < (1 << 20); turns++) {
		x += step;
		y += step;
		z += step;
	}
	if (argc > 1) /* where they are */
		printf("statics %p %p %p, stack %p %p\n", (void *)&x, (void *)&y, (void *)&z, (void *)&step, (void *)&turns);
	return 0;
}
