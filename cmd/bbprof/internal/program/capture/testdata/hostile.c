// A program that makes it hard to be captured, in the way that its argument names. It calls work 100 times
// and writes a line.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline, noclone)) long work(long *p, long n)
{
	p[0] += n;
	p[1] ^= p[0];
	return p[0] * 3;
}

static long data[2];
static volatile int signals;

static long all(long *p)
{
	long sum = 0;
	for (int i = 0; i < 100; i++)
		sum += work(p, i);
	return sum;
}

static void handler(int s) { signals++; }

static void *thread(void *p) { return (void *)all(p); }

static char *page(void *p) { return (char *)((long)p & -4096); }

int main(int argc, char **argv)
{
	char *how = argc > 1 ? argv[1] : "";
	long sum = all(data), other[2] = {0, 0};
	if (!strcmp(how, "code")) { // changes a byte of the block, and back
		mprotect(page(work), 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
		unsigned char *end = (unsigned char *)work, old;
		while (*end != 0xc3)
			end++;
		old = end[-1];
		end[-1] = 0x90;
		end[-1] = old;
		unsigned char first = *(unsigned char *)work;
		*(unsigned char *)work = 0x90; // over a breakpoint
		*(unsigned char *)work = first == 0xcc ? 0x90 : first;
		puts("changed");
		return 0;
	} else if (!strcmp(how, "unmap")) {
		long *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		sum += all(p);
		munmap(p, 4096);
		sum += work(p, 1); // dies
	} else if (!strcmp(how, "protect")) {
		long *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		sum += all(p);
		mprotect(p, 4096, PROT_NONE);
		sum += work(p, 1); // dies
	} else if (!strcmp(how, "signal")) {
		struct itimerval every = {{0, 2000}, {0, 2000}};
		signal(SIGALRM, handler);
		setitimer(ITIMER_REAL, &every, 0);
		for (int i = 0; i < 10; i++)
			sum += all(data);
	} else if (!strcmp(how, "die")) {
		abort();
	} else if (!strcmp(how, "fork")) {
		fflush(0);
		if (fork() == 0)
			_exit(all(data) & 1);
		wait(0);
		sum += all(data);
	} else if (!strcmp(how, "exec")) {
		execl("/bin/echo", "echo", "another", (char *)0);
	} else if (!strcmp(how, "thread")) {
		pthread_t t;
		void *got;
		pthread_create(&t, 0, thread, other);
		sum += all(data);
		pthread_join(t, &got);
		sum += (long)got;
	}
	printf("%s %ld\n", how, sum);
	return 0;
}
