! SPDX-License-Identifier: MIT
! arrays.f90 - arrays that begin at 1 and are stored by column, and an argument by reference.
module data
  integer :: row(4) = 0
  integer :: table(2, 3) = 0
contains
  subroutine step(n)
    integer, intent(in) :: n
    row(2) = 2000 + n
    row(3) = 3000 + n
    table(2, 1) = n
  end subroutine
end module

program arrays
  use data
  implicit none
  integer :: i
  do i = 1, 3000
    call step(i)
    print *, 'round', i
    flush(6)
    call execute_command_line('sleep 0.02')
  end do
end program
