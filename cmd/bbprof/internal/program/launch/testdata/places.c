// Prints where its objects are.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <errno.h>
static int counter;
int main(int argc, char **argv)
{
	char *heap = sbrk(0);
	char *first = malloc(1000), *second = malloc(argc > 1 ? 3000 : 2000);
	second[1999] = 1;
	fprintf(stderr, "%p %p %p %p %p %p %p\n", main, &counter, heap, first, second, argv, (void *)puts);
	free(first);
	free(second);
	char *again = realloc(malloc(2000), 100000);
	again[99999] = 1;
	free(again);
	return counter;
}
