/* What addresses an allocator gives to pairs of equal requests: docs/explain.md.
 *
 *   heap 64 5120 1048576    a line for each size: the two addresses, and whether they share their low 12 bits
 *   heap threshold          the smallest request that gets a mapping of its own, and the low 12 bits of its address
 *
 * Each pair is the first that a process allocates: for each size there is a new child. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int pair(size_t size)
{
	char *first = malloc(size), *second = malloc(size);
	if (!first || !second)
		return 1;
	unsigned a = (uintptr_t)first & 0xfff, b = (uintptr_t)second & 0xfff;
	return dprintf(1, "%8zu  %14p  %14p  %s\n", size, (void *)first, (void *)second, a == b ? "alias" : "-") < 0;
}

/* What glibc first extends the heap by, 132 KiB, serves larger requests than its threshold as long as it
 * lasts. So most of it is taken before. */
enum { taken = 100000 };

/* in_heap is 0 if a request is served from the heap that brk(2) extends. */
static int in_heap(size_t size)
{
	char *start = sbrk(0);
	if (!malloc(taken))
		return 1;
	char *p = malloc(size);
	return p >= start && p < (char *)sbrk(0) ? 0 : 1;
}

/* child calls a function in a new process, which has allocated nothing yet, and returns what it returns. */
static int child(int (*call)(size_t), size_t size)
{
	pid_t pid = fork();
	int status;
	if (pid == 0)
		_exit(call(size));
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
		exit(2);
	return WEXITSTATUS(status);
}

static int threshold(void)
{
	size_t below = 1, mapped = 1 << 26;
	if (child(in_heap, below) || !child(in_heap, mapped))
		return dprintf(1, "no threshold: small requests come from mmap(2) too, or none does\n") < 0;
	while (mapped - below > 1) {
		size_t middle = below + (mapped - below) / 2;
		if (child(in_heap, middle))
			mapped = middle;
		else
			below = middle;
	}
	if (!malloc(taken))
		return 1;
	return dprintf(1, "from %zu bytes on, at ...%03x\n", mapped, (unsigned)((uintptr_t)malloc(mapped) & 0xfff)) < 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "threshold") == 0)
		return threshold();
	int failed = argc < 2;
	for (int i = 1; i < argc; i++)
		failed |= child(pair, strtoul(argv[i], NULL, 0));
	return failed;
}
