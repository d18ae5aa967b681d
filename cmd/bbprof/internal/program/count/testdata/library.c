/* work() calls itself, the library and through pointers, raises a fault, and loads the two libraries given, if any. */
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int values[30];
static char text[4096];
static sigjmp_buf back;

static void handler(int sig) { siglongjmp(back, sig); }
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
__attribute__((noinline, noclone)) int down(int n) { return n < 2 ? n : down(n - 1) + down(n - 2); }

__attribute__((noinline, noclone)) int loaded(const char *name)
{
	void *library = dlopen(name, RTLD_NOW);
	int n = ((int (*)(int))dlsym(library, "later"))(20);

	return dlclose(library) + n;
}

__attribute__((noinline, noclone)) int work(int n, const char *a, const char *b)
{
	char *to = text;
	long left = 300;

	for (int i = 0; i < 30; i++)
		values[i] = i * 7919 % 101;
	qsort(values, 30, sizeof *values, compare);
	snprintf(text, sizeof text, "%d %s %g", n, getenv("HOME"), sin(n));
	memmove(text + 1, text, 4000);
	free(malloc(n));
	__asm__ volatile("rep stosb" : "+D"(to), "+c"(left) : "a"(0) : "memory");
	for (int i = 0; i < 14; i++)
		switch (i % 7) {
		case 0: n += down(5); break;
		case 1: n ^= i; break;
		case 2: n *= 3; break;
		case 3: n += strlen(text); break;
		case 4: n -= 5; break;
		case 5: n += a ? loaded(i % 2 ? a : b) : 0; break;
		}
	if (!sigsetjmp(back, 1))
		*(volatile int *)8 = 1;
	return n;
}

int main(int argc, char **argv)
{
	signal(SIGSEGV, handler);
	return work(argc, argv[1], argv[2]) == 1;
}
