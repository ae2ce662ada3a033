--  SPDX-License-Identifier: MIT
--  Names of Ada: overloaded ones, an operator, a package in another, a function in another.
package Ring is
   type Buffer is record
      N : Integer := 0;
   end record;
   procedure Push (B : in out Buffer; V : Integer);
   procedure Push (B : in out Buffer; V : Integer; W : Integer);
   function "+" (A : Buffer; B : Buffer) return Buffer;
   function Count_All (B : Buffer) return Integer;
   package Inner is
      procedure Deep (X : Integer);
   end Inner;
   Total : Integer := 0;
end Ring;
