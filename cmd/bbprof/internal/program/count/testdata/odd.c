/* Programs whose threads, children or signals meet the count of work(). The exit status is 0
 * only if everything else went as it should. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *what = "";
static volatile int traps, stop;
static sem_t ask, answer;
static pthread_t counted;

static int is(const char *name) { return strcmp(what, name) == 0; }

static void handler(int sig) { traps++; (void)sig; }

static void reap(pid_t child)
{
	int status;

	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		exit(10);
}

static volatile int odd; /* what work is to do besides */

__attribute__((noinline, noclone)) long work(long n)
{
	volatile long sum = 0;

	for (long i = 0; i < n; i++)
		sum += i;
	switch (odd) {
	case 1: {
		pid_t child = fork();
		if (child == 0)
			_exit(0);
		reap(child);
		break;
	}
	case 2: {
		pid_t child = vfork();
		if (child == 0) {
			execl("/bin/true", "true", (char *)0);
			_exit(1);
		}
		reap(child);
		break;
	}
	case 3:
		sem_post(&ask);
		sem_wait(&answer);
		break;
	case 4:
		raise(SIGUSR1);
		break;
	case 5:
		__asm__ volatile("int3");
		break;
	case 7: {
		struct itimerval soon = {{0, 0}, {0, 2000}};
		setitimer(ITIMER_REAL, &soon, NULL);
		while (!traps)
			;
		break;
	}
	case 6:
		execl("/bin/true", "true", (char *)0);
		break;
	}
	return sum;
}

static void *spin(void *unused)
{
	while (!stop)
		;
	for (int i = 0; i < 3; i++)
		work(3);
	return unused;
}

static void *serve(void *unused)
{
	sem_wait(&ask);
	if (is("ignored")) {
		usleep(20000);
		pthread_kill(counted, SIGCHLD);
		usleep(20000);
	}
	sem_post(&answer);
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t threads[3];
	int n = 0;

	what = argc > 1 ? argv[1] : "";
	signal(SIGUSR1, handler);
	signal(SIGTRAP, handler);
	signal(SIGALRM, handler);
	sem_init(&ask, 0, 0);
	sem_init(&answer, 0, 0);
	if (is("threads"))
		for (; n < 3; n++)
			pthread_create(&threads[n], 0, spin, 0);
	counted = pthread_self();
	if (is("wait") || is("ignored"))
		pthread_create(&threads[n++], 0, serve, 0);
	if (is("forked")) {
		pid_t child = fork();
		if (child == 0) {
			work(5);
			_exit(0);
		}
		reap(child);
	}
	odd = is("fork") ? 1 : is("vfork") ? 2 : is("wait") || is("ignored") ? 3 : is("signal") ? 4 : is("trap") ? 5 : is("exec") ? 6 : is("alarm") ? 7 : 0;
	work(10);
	odd = 0;
	stop = 1;
	while (n > 0)
		pthread_join(threads[--n], 0);
	if ((is("signal") || is("trap") || is("alarm")) && traps != 1)
		return 11;
	return 0;
}
