// A program that computes with random bytes: from the C library's start, of getrandom(2) and of /dev/urandom.
#include <fcntl.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <unistd.h>

__attribute__((noinline, noclone)) long work(long *p, long n)
{
	p[0] += n;
	p[1] ^= p[0];
	return p[0] * 3;
}

int main(void)
{
	static long data[1024];
	int fd = open("/dev/urandom", O_RDONLY);
	for (int i = 0; i < 4; i++) {
		long *of[] = {data, data + 2, (long *)getauxval(AT_RANDOM)};
		if (getrandom(of[0], 16, 0) != 16 || read(fd, of[1], sizeof data - 64) < 16)
			return 1;
		for (int k = 0; k < 3; k++)
			printf("%lx\n", work(of[k], i));
	}
	return 0;
}
