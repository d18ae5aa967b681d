// step copies text and adds numbers on its way along a ring. The program goes on for ever unless it has an argument.
#include <stdio.h>
#include <string.h>

struct node {
	struct node *next;
	char text[32];
	double number;
	int index;
};

static struct node ring[64];
static char copies[4096];
static long counts[64];
static double sum;

struct node *step(struct node *n, char *to, int shift)
{
	memcpy(to, n->text, sizeof n->text);
	sum += n->number * 1.5;
	counts[n->index] += 1L << shift;
	return n->next;
}

int main(int argc, char **argv)
{
	struct node *at = ring;
	for (int i = 0; i < 64; i++) {
		ring[i].next = &ring[(7 * i + 3) % 64];
		memcpy(ring[i].text, "some text that fills thirty-two ", sizeof ring[i].text);
		memcpy(&ring[i].number, "8 bytes.", sizeof ring[i].number);
		ring[i].index = 5 * i % 64;
	}
	for (int i = 0; argc < 2 || i < 300; i++) {
		at = step(at, copies + i % 4000, i % 13);
		if (i == 200) {
			puts("often");
			fflush(stdout);
		}
	}
	return 0;
}
