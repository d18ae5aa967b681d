/* A JIT compiler of one function, product, for docs/counting.md. Its argument says what it does in order: m map a page
 * for the function, w write it, x make it executable, l list it in the perf map, o list another in its place, c call it,
 * b go back to the first page. For n, product executes 3 n + 2 instructions.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const unsigned char code[] = {
	0x31, 0xc0,       /* xor eax, eax */
	0x83, 0xc0, 0x03, /* 1: add eax, 3 */
	0xff, 0xcf,       /* dec edi */
	0x75, 0xf9,       /* jnz 1b */
	0xc3,             /* ret */
};

static void list(const char *path, void *page, const char *name)
{
	FILE *map = fopen(path, "a");

	if (map) {
		fprintf(map, "%lx %zx %s\n", (unsigned long)page, sizeof code, name);
		fclose(map);
	}
}

int main(int argc, char **argv)
{
	char path[64];
	void *page = NULL, *first = NULL;
	int n = 10, sum = 0;

	snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
	for (const char *p = argc > 1 ? argv[1] : "mwxlccc"; *p; p++) {
		switch (*p) {
		case 'm':
			page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			first = first ? first : page;
			break;
		case 'b':
			page = first;
			break;
		case 'w':
			memcpy(page, code, sizeof code);
			break;
		case 'x':
			mprotect(page, 4096, PROT_READ | PROT_EXEC);
			break;
		case 'l':
			list(path, page, "product");
			break;
		case 'o':
			list(path, page, "other");
			break;
		case 'c':
			sum += ((int (*)(int))page)(n++);
			break;
		}
	}
	unlink(path);
	printf("%d\n", sum);
	return 0;
}
