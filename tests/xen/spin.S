/* A paravirtualized guest of Xen that does nothing but take processor time: it never ends, sleeps or calls. One virtual CPU. */
#define NOTE(type, what) .balign 4; .long 2f - 1f; .long 4f - 3f; .long type; 1: .asciz "Xen"; 2: .balign 4; 3: what; 4: .balign 4
	.section .note.Xen, "a", @note
	NOTE(6, .asciz "spin")		/* XEN_ELFNOTE_GUEST_OS */
	NOTE(8, .asciz "generic")	/* LOADER */
	NOTE(5, .asciz "xen-3.0")	/* XEN_VERSION */
	NOTE(3, .quad 0)		/* VIRT_BASE */
	NOTE(4, .quad 0)		/* PADDR_OFFSET */
	NOTE(1, .quad _start)		/* ENTRY */
	NOTE(2, .quad hypercalls)	/* HYPERCALL_PAGE */
	NOTE(9, .asciz "yes")		/* PAE_MODE */

	.text
	.globl _start
_start:	incq %rax
	jmp _start

	.balign 4096
hypercalls:
	.skip 4096
	.section .note.GNU-stack, "", @progbits
