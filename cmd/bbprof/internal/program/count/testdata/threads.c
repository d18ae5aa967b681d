/* Two threads call f at one place. f makes the system call that it is given; what it returns to is one more, nanosleep. */
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

long at_one_place(const void *arg, long number, char *byte);

__asm__(".text\n.type f, @function\nf:\n"
	"movb $0, (%rdx)\nmov %esi, %eax\nxor %esi, %esi\nxor %edx, %edx\nsyscall\nmov $35, %eax\nret\n.size f, .-f\n"
	"at_one_place:\ncall f\nsyscall\nret\n");

static volatile int ready;
static const struct timespec soon = {0, 100000000}, late = {0, 200000000};
static const char *what;
static char byte;

static void *first(void *unused)
{
	ready = 1;
	if (!strcmp(what, "exit"))
		at_one_place((void *)7, SYS_exit_group, &byte);
	if (!strcmp(what, "exec"))
		at_one_place("/bin/true", SYS_execve, &byte);
	at_one_place(&soon, SYS_nanosleep, strcmp(what, "crash") ? &byte : 0);
	return unused;
}

static void *second(void *unused)
{
	while (!ready)
		usleep(1000);
	usleep(20000);
	at_one_place(&late, SYS_getpid, &byte);
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t threads[2];
	int lower;

	what = argc > 1 ? argv[1] : "";
	lower = !strcmp(what, "lower"); /* is the second's stack: stacks are mapped from above */
	pthread_create(&threads[0], 0, lower ? first : second, 0);
	pthread_create(&threads[1], 0, lower ? second : first, 0);
	pthread_join(threads[0], 0);
	pthread_join(threads[1], 0);
	return 0;
}
